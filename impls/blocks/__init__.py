"""Attention over chosen blocks of keys."""
