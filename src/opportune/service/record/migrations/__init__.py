"""Migrations of the tables, one for each change."""
