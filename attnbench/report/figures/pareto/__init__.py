"""What a method loses against what it costs."""
