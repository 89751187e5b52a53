"""What the server runs: folds of reports into state, and estimates from it."""
