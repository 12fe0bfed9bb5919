"""Verification: the record is folded again and compared with what is stored."""
