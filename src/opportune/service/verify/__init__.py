"""Verification: folding the record again and comparing the result with the tables."""
