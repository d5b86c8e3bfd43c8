"""The sentence of result."""
