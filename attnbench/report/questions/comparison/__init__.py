"""The question whether one side is slower than the other: two runs, two commits, or the methods of one run."""
