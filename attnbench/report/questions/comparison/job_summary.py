"""A judgement as a job's summary page: Markdown, worst rows first, never larger than what is shown at all."""

from dataclasses import replace

from attnbench.report.questions.comparison.judgement import Judgement
from attnbench.report.questions.comparison.table import comparison_table
from attnbench.report.text.markdown import escape, one_table

MOST_BYTES = 900_000
"""A page above 1 MiB is dropped whole."""


def job_summary(judgement: Judgement, headline: str) -> str:
    """The headline, the table as far as it fits, and how many rows are left out."""
    table = comparison_table(judgement)
    rows = table.rows
    while True:
        left_out = len(table.rows) - len(rows)
        more = f"\n{left_out} more rows, none worse than these, are left out.\n" if left_out else ""
        bold = frozenset(place for place in table.bold if place[0] < len(rows))
        text = f"# {escape(headline)}\n\n{one_table(replace(table, rows=rows, bold=bold))}{more}"
        if len(text.encode()) <= MOST_BYTES or not rows:
            return text
        rows = rows[: len(rows) * MOST_BYTES // (len(text.encode()) + 1)]
