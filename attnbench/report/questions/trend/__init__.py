"""The question how figures changed from run to run."""
