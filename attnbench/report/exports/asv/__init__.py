"""Airspeed velocity: its results, its folder, and the points that it plots."""
