"""From records to statistics."""
