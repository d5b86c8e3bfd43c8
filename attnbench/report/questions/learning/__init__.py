"""The question what models learn around each attention, how long it takes, and what they generate."""
