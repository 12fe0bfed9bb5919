"""What results mean: regret, bounds, clairvoyants, intervals, figures, files."""
