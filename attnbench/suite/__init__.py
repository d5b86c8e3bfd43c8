"""From YAML to cells: loading with line numbers, and expansion."""
