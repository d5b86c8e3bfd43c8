"""Attention through landmarks: Nyström's approximation, and keys and values pooled by a pyramid."""
