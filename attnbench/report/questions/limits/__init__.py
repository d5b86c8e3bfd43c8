"""Which lengths and batches fit."""
