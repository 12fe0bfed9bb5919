"""The paper's experiments: one file each, its grid as data, its claims as checks."""
