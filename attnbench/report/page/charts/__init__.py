"""The numbers behind the charts of a page."""
