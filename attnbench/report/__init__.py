"""Tables, plots and text for people, made from records."""
