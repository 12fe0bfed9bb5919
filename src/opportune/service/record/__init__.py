"""The record: events, the writer, transactions, the database and its tables."""
