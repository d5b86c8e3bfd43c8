"""The order of jobs: fed with records, it gives the next job; it starts nothing and reads no clock."""
