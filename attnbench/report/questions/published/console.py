"""Published against reproduced for a terminal: what came of each claim that bounds were set for."""

import textwrap
from collections.abc import Iterable
from itertools import groupby

from attnbench.analyze.published import Finding, Row, rows
from attnbench.analyze.published_entries import in_short
from attnbench.report.findings import Findings
from attnbench.report.questions.published.words import bounds, place, value
from attnbench.report.text.names import one_line, shorten
from attnbench.schema.published import Published

WIDTH = 80
_VERDICT, _LONGEST = 16, 150
"""Letters of the first column, and of a reason."""
# no place to break a line at
_EQUALS = "\u00a0=\u00a0"


def published_lines(findings: Findings) -> list[str]:
    """A line for each such claim, wrapped to 80 columns; of a printed table one for each thing that came of its figures.

    What the run was not made for is counted.
    """
    judged = [row for row in rows(findings.run.suite.published, findings.summaries) if row.judged]
    claims = groupby((row for row in judged if not row.elsewhere), key=lambda row: row.entry.written)
    said = [text for written, of in claims for text in _claim(written, list(of))]
    if elsewhere := sum(row.elsewhere for row in judged):
        said.append((Finding.NOT_RUN, f"{elsewhere} more, for which this run was not made; table.md says what they need"))
    return [line for text in said for line in _wrapped(*text)]


def _claim(written: Published, found: list[Row]) -> list[tuple[Finding, str]]:
    """What came of a claim; figures of one printed table that came to the same are counted."""
    name = one_line(f"{written.where}: {in_short(written)}")
    groups = {finding: [row for row in found if row.finding is finding] for finding in Finding}
    return [
        (finding, _single(of[0]) if len(of) == 1 else f"{name}: {len(of)} of {len(found)} figures{_bounds(of)}")
        for finding, of in groups.items()
        if of
    ]


def _single(row: Row) -> str:
    said = shorten(one_line(row.why), _LONGEST) if row.figure is None else value(row.figure)
    return f"{place(row)}: {said}{_bounds([row])}"


def _bounds(rows: Iterable[Row]) -> str:
    """Of figures that share theirs; each number of a printed table may be its own bound."""
    match list({row.entry.band for row in rows}):
        case [(least, most)]:
            return f" ({bounds(least, most)})"
        case _:
            return ""


def _wrapped(finding: Finding, text: str) -> Iterable[str]:
    """Every length beside its N."""
    held = f"{finding:<{_VERDICT}}{text.replace(' = ', _EQUALS)}"
    lines = textwrap.wrap(held, WIDTH, subsequent_indent=" " * _VERDICT, break_on_hyphens=False)
    return (line.replace(_EQUALS, " = ") for line in lines)
