"""A trial after its end, or in its course: its record read from an export, counted, checked and analysed."""
