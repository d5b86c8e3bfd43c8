"""The doors: only here is anything printed or exited."""
