"""Sparse attention to keys that are chosen."""
