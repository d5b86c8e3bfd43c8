"""Loading suite files, with line numbers in errors, and expanding them to cells."""
