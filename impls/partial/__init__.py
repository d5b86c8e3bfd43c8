"""Softmax attention over a part of the keys, so that parts can be merged: what several families are built from."""
