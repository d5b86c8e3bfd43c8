"""Attention with a limited reach in plain torch."""
