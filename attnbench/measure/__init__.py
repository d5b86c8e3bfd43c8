"""One hazard of measuring, one small file. Nothing of ours is imported here."""
