"""Accounts and permissions: keys, people, passwords, sessions, limits, pseudonyms."""
