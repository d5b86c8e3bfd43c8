"""Attention over quantised keys in plain torch."""
