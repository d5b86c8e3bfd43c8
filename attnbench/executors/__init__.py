"""Where blocks of cells go."""
