"""Live: one decision at a time, for real participants."""
