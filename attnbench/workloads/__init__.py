"""From a cell to measured samples, here and now."""
