"""How far a method is from exact attention, and how far rounding takes it from its own definition."""
