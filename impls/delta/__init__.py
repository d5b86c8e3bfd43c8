"""Linear recurrences that correct what the state holds: the delta rule, its gated forms, and RWKV-7."""
