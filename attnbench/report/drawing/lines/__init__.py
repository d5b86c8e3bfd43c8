"""Figures of one line for each method over length: what is shown, its curves, and their panels."""
