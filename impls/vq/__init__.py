"""Attention over vector-quantised keys, linear in N."""
