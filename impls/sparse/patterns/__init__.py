"""The patterns of sparse attention."""
