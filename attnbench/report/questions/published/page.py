"""The page of what others printed and runs came to: in short by paper, counts of all suites, and a table for each."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from attnbench.analyze.published import Finding, Row, not_run, rows
from attnbench.report.conditions import machine
from attnbench.report.findings import Findings
from attnbench.report.questions.published.table import about, ours, place, table_of
from attnbench.report.text.markdown import one_table
from attnbench.report.text.names import one_line
from attnbench.report.text.table import Table
from attnbench.schema.published import Comparable, Published
from attnbench.schema.suite import Suite

_PAPER = re.compile(r"arXiv:(\d{4}\.\d{4,5})")
_NAMED = re.compile(r"(\w+(?: et al\.)? \d{4}), arXiv:(\d{4}\.\d{4,5})")
_BESIDE = "shown beside ours and not judged"
_MISSED = 3
"""The figures of a paper that are named because they were not reproduced."""
_HEAD = """\
# Published and reproduced

{in_short}

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
    def paper(self) -> str:
        """Return the number of its paper, which begins with the month; empty where the suite names none."""
        number = _PAPER.search(self.suite.source)
        return number[1] if number else ""

    @cached_property
    def rows(self) -> list[Row]:
        """Return the rows by the suite as it is now."""
        if self.findings is None:
            return not_run(self.suite.published, f"no run of it was given; attnbench run {self.suite.name}")
        return rows(self.suite.published, self.findings.summaries, self.findings.run)


def published_page(shown: Sequence[Shown]) -> str:
    """Return what came of each paper in short, counts of all suites, then a table for each, in the order of their papers."""
    ordered = sorted(shown, key=lambda each: (not each.paper, each.paper, each.suite.name))
    texts = [(f"{each.suite.name}: {each.suite.source}", *_numbers(each.rows)) for each in ordered]
    texts.append(("all", *_numbers([row for each in ordered for row in each.rows])))
    headers = ("suite", "figures", *(finding.value or "only beside" for finding in Finding))
    machines = dict.fromkeys(machine(each.findings.run).partition("; environment")[0] for each in ordered if each.findings)
    tables = [Table("All figures", headers, tuple(texts), notes=tuple(machines))]
    for each in ordered:
        notes = [*_older(each.suite, each.findings), *about(each.findings)] if each.findings else []
        tables.append(table_of(f"{each.suite.name}: {each.suite.source}", each.rows, notes))
    return "\n".join([_HEAD.format(in_short="\n".join(_in_short(ordered))), *map(one_table, tables)])


def _in_short(shown: Sequence[Shown]) -> list[str]:
    """Say what came of all figures, and of those of each paper, with what did not come out, for a reader in a hurry."""
    named = {number: name for each in shown for name, number in _NAMED.findall(each.suite.source)}
    papers: dict[str, list[Row]] = {}
    for each in shown:
        for row in each.rows:
            where = row.entry.written.where
            # a suite of several papers says at each figure whose it is
            by_name = next((number for number, name in named.items() if where.startswith(name.rpartition(" ")[0])), None)
            by_number = _PAPER.match(where)
            papers.setdefault(by_number[1] if by_number else by_name or each.paper, []).append(row)
    every = [row for found in papers.values() for row in found]
    gpu = sum(row.finding is Finding.NOT_RUN and "a GPU" in row.why for row in every)
    lines = [
        f"**{len(every)} printed figures: {_counted(every)}.**",
        *([f"Of those that were not run, {gpu} need a GPU; the tables below say what the others need."] if gpu else []),
        "By paper:",
        "",
    ]
    for number, own in sorted(papers.items(), key=lambda paper: (not paper[0], paper[0])):
        name = ", ".join(filter(None, [named.get(number), number and f"arXiv:{number}"])) or "without a paper"
        missed = [
            f"{place(row)}, {ours(row.figure)} where {row.entry.says.partition(',')[0]} is printed"
            for row in own
            if row.finding is Finding.NOT_REPRODUCED
        ]
        more = f" and {len(missed) - _MISSED} more" if len(missed) > _MISSED else ""
        told = f". Not reproduced: {'; '.join(missed[:_MISSED])}{more}" if missed else ""
        lines.append(one_line(f"- {name}, {len(own)} figure{'s' * (len(own) > 1)}: {_counted(own)}{told}."))
    return lines


def _counted(found: Sequence[Row]) -> str:
    """`4 reproduced, 30 not run; not comparable, being of other hardware: 7`."""
    counts = Counter(row.finding for row in found)
    parts = [f"{counts[finding]} {finding.value or _BESIDE}" for finding in Finding if counts[finding]]
    hardware = sum(row.entry.written.comparable is Comparable.HARDWARE for row in found)
    return ", ".join(parts) + (f"; not comparable, being of other hardware: {hardware}" if hardware else "")


def _numbers(found: Sequence[Row]) -> tuple[str, ...]:
    counts = Counter(row.finding for row in found)
    return str(len(found)), *(str(counts[finding]) for finding in Finding)


def _older(suite: Suite, findings: Findings) -> list[str]:
    """Say how many bounds were not there, or were others, when the run was started."""
    judged = [each for each in suite.published if each.reproduced is not None]
    then = [_decides(each) for each in findings.run.suite.published]
    later = [each for each in judged if _decides(each) not in then]
    words = f"Older than its bounds: {len(later)} of {len(judged)} were written or changed after this run was started."
    return [words] if later else []


def _decides(each: Published) -> tuple[object, ...]:
    """Return all that a verdict hangs on: words may be mended after a run."""
    return each.ours, each.reproduced, each.number, each.grid
