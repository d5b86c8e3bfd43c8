"""Whether runs reproduce the figures that others have printed."""
