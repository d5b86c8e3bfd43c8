"""The page of a run, or of several side by side: one HTML file that holds everything and fetches nothing."""

from attnbench.report.page.document import page

__all__ = ["page"]
