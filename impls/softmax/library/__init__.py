"""Softmax attention by torch's own kernels."""
