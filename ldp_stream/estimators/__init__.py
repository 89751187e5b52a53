"""River estimators: the only part of the core that imports river."""
