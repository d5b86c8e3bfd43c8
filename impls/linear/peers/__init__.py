"""Linear attention of other packages."""
