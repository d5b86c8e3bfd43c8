"""Softmax attention: exact, quadratic."""
