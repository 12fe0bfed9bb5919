"""The HTTP API: addresses, what they take and answer, who may use them."""
