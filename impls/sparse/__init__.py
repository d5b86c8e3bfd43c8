"""Softmax attention over fixed subsets of the keys."""
