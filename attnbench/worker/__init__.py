"""The child's side of an errand, and the parent's side that always comes back with an answer."""
