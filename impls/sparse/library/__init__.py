"""Sparse attention by torch's own kernels."""
