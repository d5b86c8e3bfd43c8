"""Linear attention by CUDA kernels of our own."""
