"""Pages that people read: self-contained HTML from results."""
