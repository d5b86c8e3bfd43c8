"""Linear recurrences by chunks: what the families gated and delta are built from."""
