"""Which job comes next: fed with records, it gives jobs; it starts nothing and reads no clock."""
