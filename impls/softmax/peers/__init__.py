"""Softmax attention of other packages."""
