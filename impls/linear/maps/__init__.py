"""The feature maps of linear attention."""
