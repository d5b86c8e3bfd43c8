"""A measurement in hand: what is asked for, and the scene that all measuring shares."""
