"""Exports: CSV files and a dictionary of their columns."""
