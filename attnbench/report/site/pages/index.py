"""The index of a site: what was run on what and when, a card for each run, and what was left out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from attnbench.report.site.pages.card import Card
from attnbench.report.site.pages.picture import classes
from attnbench.report.site.pages.templates import rendered
from attnbench.report.site.pages.trends import TrendLine
from attnbench.report.site.runs.arrangement import Machine, Members, Part, Suite
from attnbench.report.site.runs.kind import Kind
from attnbench.report.site.runs.machines import machine_words
from attnbench.report.site.runs.survey import LeftOut
from attnbench.report.text.counts import counted
from attnbench.report.text.names import one_line
from attnbench.version import __version__

MOST = 6
"""Runs of one suite and machine that are shown at once; the older ones are a click away."""


@dataclass(frozen=True)
class Contents:
    """What the index is made from."""

    parts: Sequence[Part]
    cards: Mapping[str, Card]
    """By place of the first of its members."""
    trends: Mapping[str, TrendLine]
    """By shelf."""
    left_out: Sequence[LeftOut]
    records: bool
    """Whether the raw records are on the site."""


@dataclass(frozen=True)
class _Machine:
    anchor: str
    name: str
    full: str
    trend: TrendLine | None
    cards: tuple[Card, ...]


@dataclass(frozen=True)
class _Suite:
    anchor: str
    name: str
    source: str
    count: int
    machines: tuple[_Machine, ...]


@dataclass(frozen=True)
class _Place:
    """Where the runs of a suite on a machine are."""

    anchor: str
    name: str
    count: int


@dataclass(frozen=True)
class _Part:
    anchor: str
    title: str
    suites: tuple[_Suite, ...]


def index_page(contents: Contents) -> str:
    """HTML of one file; a small script filters, and nothing is missing without it."""
    pictures = [card.picture for card in contents.cards.values() if card.picture]
    parts = [_part(contents, part) for part in contents.parts]
    return rendered(
        "index.html",
        classes(pictures),
        scripted=True,
        extent=extent(contents.parts),
        parts=parts,
        most=MOST,
        machines=_by_machine(parts),
        left_out=contents.left_out,
        records=contents.records,
        version=__version__,
    )


def extent(parts: Iterable[Part]) -> str:
    """`14 runs of 13 suites on 2 machines, 2026-11-20 to 2026-11-21`."""
    runs = [found.entry for members in _members(parts) for found in members]
    suites, machines = {entry.suite for entry in runs}, {entry.machine for entry in runs}
    dates = dict.fromkeys((min(entry.date for entry in runs), max(entry.date for entry in runs)))
    what = f"{counted(len(runs), 'run')} of {counted(len(suites), 'suite')} on {counted(len(machines), 'machine')}"
    return f"{what}, {' to '.join(dates)}"


def _members(parts: Iterable[Part]) -> Iterable[Members]:
    return (members for part in parts for suite in part.suites for machine in suite.machines for members in machine.runs)


def _part(contents: Contents, part: Part) -> _Part:
    # names of folders never begin with an underscore
    before = "" if part.kind is Kind.RUN else f"_{part.kind.value}/"
    return _Part(f"_{part.kind.value}", part.kind.heading, tuple(_suite(contents, suite, before) for suite in part.suites))


def _suite(contents: Contents, suite: Suite, before: str) -> _Suite:
    return _Suite(
        anchor=f"{before}{suite.machines[0].shelf.partition('/')[0]}",
        name=one_line(suite.name),
        source=one_line(suite.source),
        count=suite.count,
        machines=tuple(_machine(contents, machine, before) for machine in suite.machines),
    )


def _by_machine(parts: Iterable[_Part]) -> list[tuple[str, list[_Place]]]:
    """For each machine, by name, where the runs of each suite are."""
    found: dict[str, list[_Place]] = {}
    for suite in (suite for part in parts for suite in part.suites):
        for machine in suite.machines:
            found.setdefault(machine.full, []).append(_Place(machine.anchor, suite.name, len(machine.cards)))
    # two of them may have the same short words
    return [(machine_words(name), found[name]) for name in sorted(found)]


def _machine(contents: Contents, machine: Machine, before: str) -> _Machine:
    return _Machine(
        anchor=f"{before}{machine.shelf}",
        name=machine_words(machine.name),
        full=one_line(machine.name),
        # runs of another kind have a shelf in common with those of the suite, and no trend
        trend=None if before else contents.trends.get(machine.shelf),
        cards=tuple(contents.cards[members[0].place] for members in machine.runs),
    )
