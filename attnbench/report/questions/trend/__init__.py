"""How figures changed from run to run."""
