"""Attention over quantised keys by Triton kernels of our own."""
