"""The nouns of the project: frozen, strict, versioned data. Nothing here imports torch."""
