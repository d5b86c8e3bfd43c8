"""Attention with a limited reach: segments with a memory, and spans that are learned."""
