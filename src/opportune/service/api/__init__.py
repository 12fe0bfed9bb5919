"""The HTTP API: its addresses, what they accept and return, and who may use them."""
