"""LSH attention in plain torch."""
