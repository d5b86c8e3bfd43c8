"""The index of a site: what was run on what and when, a card for each run, and what was left out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from attnbench.analyze.sections import grouped
from attnbench.report.site.pages import Made
from attnbench.report.site.runs import Found, Kind, LeftOut, machine_words
from attnbench.report.site.shelf import Link
from attnbench.report.site.templates import rendered
from attnbench.schema.units import counted
from attnbench.version import __version__

MOST = 6
"""Runs of one suite and machine that are shown at once; the older ones are a click away."""


@dataclass(frozen=True)
class Card:
    """The entry of one run in the index."""

    newest: Found
    """The run; the newer side of a comparison."""
    address: str
    """Its folder, which is also its name within the index."""
    made: Made
    facts: tuple[str, ...]
    links: tuple[Link, ...]
    """Tables that were made, and the records where they go along."""
    files: tuple[Link, ...]
    """All other files."""

    @property
    def shelf(self) -> str:
        """Return the folder of its suite and machine."""
        return self.address.rpartition("/")[0]


_HEADINGS = {
    Kind.RUN: "Runs",
    Kind.COMPARISON: "Comparisons of two commits",
    Kind.CROSSOVER: "Crossovers",
    Kind.LIMITS: "Longest sequences, largest batches",
    Kind.SELFCHECK: "Selfchecks",
}


def index_page(
    cards: Sequence[Card], trends: Mapping[str, tuple[Link, str]], left_out: Sequence[LeftOut], extent: str, *, records: bool
) -> str:
    """Return HTML of one file; a small script filters, and nothing is missing without it. `trends` are by shelf.

    Kinds of runs have parts of their own, with their suites by name, and the machines of each in the order of the newest run.
    """
    newest = sorted(cards, key=lambda card: (card.newest.entry.started, card.newest.place), reverse=True)
    parts = []
    contents: dict[str, list[tuple[str, str, int]]] = {}
    for kind, heading in _HEADINGS.items():
        # names of folders never begin with an underscore
        before = "" if kind is Kind.RUN else f"_{kind.value}/"
        by_suite = grouped((card.newest.entry.suite, card) for card in newest if card.newest.kind is kind)
        suites = []
        for suite, members in sorted(by_suite.items()):
            machines = []
            for machine, own in grouped((card.newest.entry.machine, card) for card in members).items():
                anchor = f"{before}{own[0].shelf}"
                contents.setdefault(machine, []).append((anchor, suite, len(own)))
                # runs of another kind have a shelf in common with those of the suite, and no trend
                trend = None if before else trends.get(own[0].shelf)
                about = {"anchor": anchor, "full": machine, "name": machine_words(machine)}
                machines.append({**about, "trend": trend, "cards": own})
            first = members[0]
            about = {"anchor": f"{before}{first.shelf.partition('/')[0]}", "name": suite}
            suites.append({**about, "source": first.newest.source, "count": len(members), "machines": machines})
        if suites:
            parts.append((f"_{kind.value}", heading, suites))
    return rendered(
        "index.html",
        scripted=True,
        extent=extent,
        parts=parts,
        most=MOST,
        # two of them may have the same short words
        machines=[(machine_words(name), contents[name]) for name in sorted(contents)],
        left_out=left_out,
        records=records,
        version=__version__,
    )


def extent_of(runs: Iterable[Found]) -> str:
    """Return `14 runs of 13 suites on 2 machines, 2026-11-20 to 2026-11-21`."""
    entries = [found.entry for found in runs]
    suites, machines = {entry.suite for entry in entries}, {entry.machine for entry in entries}
    dates = dict.fromkeys((min(entry.date for entry in entries), max(entry.date for entry in entries)))
    what = f"{counted(len(entries), 'run')} of {counted(len(suites), 'suite')} on {counted(len(machines), 'machine')}"
    return f"{what}, {' to '.join(dates)}"
