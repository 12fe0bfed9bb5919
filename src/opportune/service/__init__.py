"""A study, live: the record of what happened, the decisions made from it, and how apps and staff reach them."""
