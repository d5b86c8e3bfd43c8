"""Linear recurrences that correct what the state holds: the delta rule and its relatives."""
