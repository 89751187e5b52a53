"""Simulations that check what the package promises, vectorised over replications."""
