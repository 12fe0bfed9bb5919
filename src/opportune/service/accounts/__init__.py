"""Who may do what: keys, people, passwords, sessions, limits, pseudonyms."""
