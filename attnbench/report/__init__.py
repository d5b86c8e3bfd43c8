"""From records to what people look at: tables, plots, text."""
