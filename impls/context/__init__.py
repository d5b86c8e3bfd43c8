"""Attention whose reach is its own matter: memories of segments, and spans that are learned."""
