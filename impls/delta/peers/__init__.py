"""The delta family of other packages."""
