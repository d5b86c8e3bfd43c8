"""Linear attention in plain torch."""
