"""Measuring a cell in this process."""
