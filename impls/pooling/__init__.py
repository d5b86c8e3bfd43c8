"""Attention over pooled keys and values, of pooled queries, and among the most attended tokens."""
