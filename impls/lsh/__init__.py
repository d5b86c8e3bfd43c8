"""Attention within hash buckets."""
