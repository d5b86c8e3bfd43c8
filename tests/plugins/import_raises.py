"""A module whose import raises."""

raise RuntimeError("cannot be imported today")
