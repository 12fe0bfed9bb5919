"""A trial after its end or during its course: its record read from an export, counted, checked and analysed."""
