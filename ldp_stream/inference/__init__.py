"""Confidence sets for averaged chains: critical values, methods and the intervals they give."""
