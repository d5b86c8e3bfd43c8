"""Measuring: one small file for each hazard. Nothing here imports another room."""
