"""Sparse attention in plain torch."""
