"""Attention over blocks of other packages."""
