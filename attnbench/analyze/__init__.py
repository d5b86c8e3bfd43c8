"""Statistics, made from records."""
