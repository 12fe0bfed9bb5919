"""Reports for people: self-contained HTML pages built from results."""
