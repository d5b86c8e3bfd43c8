"""Softmax attention in plain torch."""
