"""One page of Markdown: everything that the suites say others printed, and what runs have to say to it."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from attnbench.analyze.published import Finding, Row, not_run, rows
from attnbench.report.conditions import machine
from attnbench.report.findings import Findings
from attnbench.report.questions.published.notes import about
from attnbench.report.questions.published.table import table_of
from attnbench.report.text.markdown import one_table
from attnbench.report.text.table import Table
from attnbench.schema.published import Published
from attnbench.schema.suite import Suite

_PAPER = re.compile(r"arXiv:(\d{4}\.\d{4,5})")
_HEAD = """\
# Published and reproduced

What the papers printed, and what came of it here. `attnbench published` makes this page from the suites, which hold every
figure with its source, and from runs:

    attnbench published results/reference --out docs/published.md

The bounds by which a figure counts as reproduced stand in the suite files and were fixed there before the runs that they
judge; where a run is older than its bounds, that is said. Absolute times and rates of other hardware are shown and never
judged. What is `not run` says what it would take.
"""


@dataclass(frozen=True)
class Shown:
    """A suite that names printed figures, and the run of it that is held against them; None where there is none."""

    suite: Suite
    findings: Findings | None

    @property
    def paper(self) -> tuple[bool, str]:
        """Papers sort by their number, which is that of their month; what has none comes last."""
        number = _PAPER.search(self.suite.source)
        return number is None, number[1] if number else ""

    @cached_property
    def rows(self) -> list[Row]:
        """By the suite as it is now."""
        if self.findings is None:
            return not_run(self.suite.published, f"no run of it was given; attnbench run {self.suite.name}")
        return rows(self.suite.published, self.findings.summaries)


def published_page(shown: Sequence[Shown]) -> str:
    """Counts of all suites, then a table for each, in the order of their papers."""
    ordered = sorted(shown, key=lambda each: (*each.paper, each.suite.name))
    return "\n".join([_HEAD, one_table(_counts(ordered)), *(one_table(_table(each)) for each in ordered)])


def _counts(shown: Sequence[Shown]) -> Table:
    """What came of each suite's figures."""
    texts = [(f"{each.suite.name}: {each.suite.source}", *_numbers(each.rows)) for each in shown]
    whole = ("all", *_numbers([row for each in shown for row in each.rows]))
    headers = ("suite", "figures", *(finding.value or "only beside" for finding in Finding))
    machines = dict.fromkeys(machine(each.findings).partition("; environment")[0] for each in shown if each.findings)
    return Table("All figures", headers, (*texts, whole), notes=tuple(machines))


def _numbers(found: Sequence[Row]) -> tuple[str, ...]:
    counts = Counter(row.finding for row in found)
    return str(len(found)), *(str(counts[finding]) for finding in Finding)


def _table(each: Shown) -> Table:
    notes = () if each.findings is None else (*_older(each.suite, each.findings), *about(each.findings))
    return table_of(f"{each.suite.name}: {each.suite.source}", each.rows, notes)


def _older(suite: Suite, findings: Findings) -> list[str]:
    """Bounds that were not there, or were others, when the run was started."""
    judged = [each for each in suite.published if each.reproduced is not None]
    then = [_decides(each) for each in findings.run.suite.published]
    later = [each for each in judged if _decides(each) not in then]
    if not later:
        return []
    return [f"Older than its bounds: {len(later)} of {len(judged)} were written or changed after this run was started."]


def _decides(each: Published) -> tuple[object, ...]:
    """All that a verdict hangs on: words may be mended after a run."""
    return each.ours, each.reproduced, each.number, each.grid
