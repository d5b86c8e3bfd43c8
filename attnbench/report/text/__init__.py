"""The parts of every written report: a table, its numbers, names and notes, and the formats that it can be shown in."""
