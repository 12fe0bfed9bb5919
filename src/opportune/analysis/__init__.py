"""Evaluation of results: regret, bounds, clairvoyants, intervals, figures, files."""
