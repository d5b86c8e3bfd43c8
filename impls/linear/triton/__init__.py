"""Linear attention by Triton kernels of our own."""
