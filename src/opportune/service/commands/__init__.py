"""What a request does: checks, the events that follow, and the answer."""
