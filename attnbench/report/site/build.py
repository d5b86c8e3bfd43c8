"""A site from a folder of runs: what there is, a page for each, the trends, the index."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from attnbench.report.site.folder import SiteError, check, replaced
from attnbench.report.site.pages.card import Card, commit, main_links, started
from attnbench.report.site.pages.comparison import of_comparison
from attnbench.report.site.pages.index import Contents, extent, index_page
from attnbench.report.site.pages.kinds import LimitsOf, Made, Write, of_limits, of_run, of_selfcheck
from attnbench.report.site.pages.trends import TrendLine, write_trend
from attnbench.report.site.runs.addresses import INDEX, addresses
from attnbench.report.site.runs.arrangement import Members, Part, arrange, together
from attnbench.report.site.runs.files import copy
from attnbench.report.site.runs.kind import Kind
from attnbench.report.site.runs.machines import machine_words
from attnbench.report.site.runs.shelf import Link, Shelf
from attnbench.report.site.runs.survey import UNREADABLE, Found, LeftOut, in_order, survey, unreadable
from attnbench.report.text.names import one_line

_ALONE = "The other side of this comparison is not here."
Say = Callable[[int, int], object]
"""Told how many cards are done, and how many there will be."""


@dataclass(frozen=True)
class Options:
    """What is asked for."""

    results: Path
    out: Path
    limits_of: LimitsOf
    records: bool = False
    """Whether the raw records go along."""


@dataclass(frozen=True)
class Built:
    """What the site holds, in words, and what it does not."""

    extent: str
    left_out: tuple[LeftOut, ...]


def build(options: Options, say: Say = lambda *_: None) -> Built:
    """Make the site, whole or not at all; raises SiteError, StoreError."""
    check(options.results, options.out)
    there = survey(options.results)
    _refuse_nothing(options.results, there.found, there.left_out)
    with replaced(options.out) as root:
        site = _Site(root, options, addresses(there.found), list(there.left_out))
        groups = together(there.found)
        for number, members in enumerate(groups):
            say(number, len(groups))
            site.add(members)
        say(len(groups), len(groups))
        return site.finish()


def _refuse_nothing(results: Path, found: Iterable[object], left_out: Iterable[LeftOut]) -> None:
    """A site without a run would take the place of one that has some."""
    if list(found):
        return
    why = [f"{each.place}: {each.why}" for each in left_out]
    if not why:
        raise SiteError(f"{results} holds no run; name a folder of run folders, as `attnbench run` leaves them in results")
    more = f"; and {len(why) - 1} more" if len(why) > 1 else ""
    raise SiteError(f"{results} holds no run that can be read: {why[0]}{more}")


@dataclass
class _Site:
    """What is there so far."""

    root: Path
    options: Options
    addresses: dict[str, str]
    left_out: list[LeftOut]
    cards: dict[str, Card] = field(default_factory=dict)
    shown: list[Members] = field(default_factory=list)

    def add(self, members: Members) -> None:
        """Its pages and its card; of a pair that cannot be read, each side by itself."""
        try:
            write = self._read(members)
        except UNREADABLE as error:
            self._give_up(members, error)
            return
        made = write(self._shelf(members[-1]))
        self.cards[members[0].place] = self._card(members, made, self._copied(members))
        self.shown.append(members)

    def _read(self, members: Members) -> Write:
        found = members[-1]
        if len(members) > 1:
            return of_comparison(members[0], found, self._shelf(members[0]))
        if found.kind is Kind.LIMITS:
            return of_limits(found, self.options.limits_of)
        return of_selfcheck(found) if found.kind is Kind.SELFCHECK else of_run(found)

    def _give_up(self, members: Members, error: Exception) -> None:
        if len(members) == 1:
            self.left_out.append(unreadable(members[0].path, members[0].place, error))
            return
        for each in members:
            self.add((each,))

    def _shelf(self, found: Found) -> Shelf:
        return Shelf(self.root, self.addresses[found.place])

    def _copied(self, members: Members) -> list[Link]:
        """What stands in the folders beside the records; what must not go along is told."""
        links = []
        for each in members:
            copied, refused = copy(each.path, self._shelf(each), records=self.options.records)
            links += copied
            self.left_out += [LeftOut(one_line(f"{each.place}/{name}"), why) for name, why in refused]
        return links

    def _card(self, members: Members, made: Made, copied: list[Link]) -> Card:
        newest = members[-1]
        links, files = main_links(made.tables, copied)
        alone = newest.kind is Kind.COMPARISON and len(members) == 1
        return Card(
            address=self.addresses[newest.place],
            page=Link(made.page.href, started(newest.entry)),
            facts=tuple(filter(None, (machine_words(newest.entry.machine), commit(newest.entry), made.cells))),
            words=(*made.words, *([_ALONE] if alone else [])),
            picture=made.picture,
            links=links,
            files=files,
        )

    def finish(self) -> Built:
        """Trends and the index."""
        _refuse_nothing(self.options.results, self.shown, self.left_out)
        parts, left_out = arrange(self.shown, self.addresses), in_order(self.left_out)
        contents = Contents(parts, self.cards, self._trends(parts), left_out, self.options.records)
        Shelf(self.root, ".").write(INDEX, index_page(contents))
        return Built(extent(parts), left_out)

    def _trends(self, parts: Iterable[Part]) -> dict[str, TrendLine]:
        """By shelf, where a suite was run on one machine more than once."""
        suites = [suite for part in parts if part.kind is Kind.RUN for suite in part.suites]
        machines = [machine for suite in suites for machine in suite.machines if len(machine.runs) > 1]
        return {m.shelf: write_trend([found for (found,) in m.runs], Shelf(self.root, m.shelf)) for m in machines}
