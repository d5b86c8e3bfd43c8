"""LSH attention of other packages."""
