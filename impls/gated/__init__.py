"""Linear recurrences with a decay: S = a S + k v."""
