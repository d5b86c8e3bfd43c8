"""Attention over a fixed number of projections of keys and values."""
