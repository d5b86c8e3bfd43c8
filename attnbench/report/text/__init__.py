"""What every report is written with: a table, its numbers, names and notes, and the formats that it can be shown in."""
