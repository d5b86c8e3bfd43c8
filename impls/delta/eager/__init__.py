"""The delta family in plain torch."""
