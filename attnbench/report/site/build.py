"""A site from a folder of runs: what there is, a page for each, the trends, the index."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from attnbench.analyze.sections import grouped
from attnbench.report.site.folder import SiteError, check, replaced
from attnbench.report.site.index import Card, extent_of, index_page
from attnbench.report.site.pages import LimitsOf, Made, made, write_trend
from attnbench.report.site.runs import UNREADABLE, Found, Kind, LeftOut, Members, machine_words, survey, together, unreadable
from attnbench.report.site.shelf import INDEX, Link, Shelf, addresses
from attnbench.store.run_folder import is_of_run

Say = Callable[[int, int], object]
"""Told how many cards are done, and how many there will be."""


@dataclass(frozen=True)
class Built:
    """The content of a site in words, and what it leaves out."""

    extent: str
    left_out: tuple[LeftOut, ...]


def build(results: Path, out: Path, limits_of: LimitsOf, *, records: bool = False, say: Say = lambda *_: None) -> Built:
    """Make the site, whole or not at all; `records`: the raw records go along. Raises SiteError, StoreError."""
    check(results, out)
    found, left_out = survey(results)
    _refuse_nothing(results, found, left_out)
    waiting, cards, shown = together(found), list[Card](), list[Found]()
    with replaced(out) as root:
        shelves = {place: Shelf(root, address) for place, address in addresses(found).items()}
        while waiting:
            say(len(cards), len(cards) + len(waiting))
            members = waiting.pop(0)
            newest = members[-1]
            try:
                pages = made(members, shelves, limits_of)
            except UNREADABLE as error:
                if len(members) > 1:
                    # each side by itself
                    waiting = [*((each,) for each in members), *waiting]
                else:
                    left_out.append(unreadable(newest.path, newest.place, error))
                continue
            cards.append(_card(members, pages, shelves, left_out, records=records))
            shown += members
        say(len(cards), len(cards))
        _refuse_nothing(results, shown, left_out)
        runs = grouped((card.shelf, card.newest) for card in cards if card.newest.kind is Kind.RUN)
        trends = {shelf: write_trend(each, Shelf(root, shelf)) for shelf, each in runs.items() if len(each) > 1}
        extent = extent_of(shown)
        Shelf(root, ".").write(INDEX, index_page(cards, trends, sorted(left_out), extent, records=records))
        return Built(extent, tuple(sorted(left_out)))


def _refuse_nothing(results: Path, found: Sequence[Found], left_out: Sequence[LeftOut]) -> None:
    """Refuse a site without a run: it would take the place of one that has some."""
    if found:
        return
    why = [f"{each.place}: {each.why}" for each in sorted(left_out)]
    if not why:
        raise SiteError(f"{results} holds no run; name a folder of run folders, as `attnbench run` leaves them in results")
    more = f"; and {len(why) - 1} more" if len(why) > 1 else ""
    raise SiteError(f"{results} holds no run that can be read: {why[0]}{more}")


def _card(members: Members, pages: Made, shelves: dict[str, Shelf], left_out: list[LeftOut], *, records: bool) -> Card:
    """Copy what stands beside the records of a run, and return its card."""
    newest, copied = members[-1], list[Link]()
    for each in members:
        links, refused = shelves[each.place].copy(each, records=records)
        copied += links
        left_out += refused
    entry = newest.entry
    commit = f"commit {entry.short_commit}" if entry.commit else ""
    return Card(
        newest=newest,
        address=shelves[newest.place].address,
        made=pages,
        facts=tuple(filter(None, (machine_words(entry.machine), commit, pages.cells))),
        links=(*pages.tables, *(link for link in copied if is_of_run(link.text))),
        files=tuple(link for link in copied if not is_of_run(link.text)),
    )
