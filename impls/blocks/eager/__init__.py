"""Attention over blocks in plain torch."""
