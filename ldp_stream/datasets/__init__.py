"""Data to try the package on: synthetic streams with known truth, and the rule for taxi trip records."""
