"""Attention over pooled keys and values, and of pooled queries."""
