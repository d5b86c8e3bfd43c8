"""Which jobs are run, and in which order."""
