"""Sparse attention of other packages."""
