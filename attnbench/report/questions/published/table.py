"""The table `published | reproduced | comparable?` of a run."""

from collections.abc import Sequence

from attnbench.analyze.published import Row, rows
from attnbench.report.findings import Findings
from attnbench.report.questions.published.notes import about, legend, reasons
from attnbench.report.questions.published.words import comparable, ours, place, verdict
from attnbench.report.text.names import one_line
from attnbench.report.text.table import Table

TITLE = "Published and reproduced"
_HEADERS = ("where", "published", "reproduced", "comparable?", "verdict")
_MOST = 20
"""Rows of a table: a page of a paper holds no more, where the columns stand in two rows."""


def published_tables(findings: Findings) -> list[Table]:
    """One, or several of a suite with very many figures; none where it names no figures."""
    found = rows(findings.run.suite.published, findings.summaries)
    parts = [found[first : first + _MOST] for first in range(0, len(found), _MOST)]
    names = [TITLE] if len(parts) == 1 else [f"{TITLE}, {number} of {len(parts)}" for number in range(1, len(parts) + 1)]
    return [table_of(name, part, about(findings)) for name, part in zip(names, parts, strict=True)]


def table_of(title: str, found: Sequence[Row], notes: Sequence[str] = ()) -> Table:
    """These rows, what their words mean, and why some have no figure."""
    texts = tuple((place(row), one_line(row.entry.says), ours(row.figure), comparable(row), verdict(row)) for row in found)
    return Table(title, _HEADERS, texts, notes=(*legend(found), *reasons(found), *notes))
