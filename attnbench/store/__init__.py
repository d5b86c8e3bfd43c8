"""Run folders: durable records, the lock that keeps two runs apart, and histories of runs."""
