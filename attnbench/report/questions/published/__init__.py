"""The question whether runs reproduce the figures that others have printed."""
