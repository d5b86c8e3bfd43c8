"""Run folders: durable records, and the lock that keeps two runs apart."""
