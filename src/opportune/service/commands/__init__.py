"""Commands, which carry out requests: checks, the events that follow, and the answer."""
