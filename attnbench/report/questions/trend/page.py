"""Trends as one page: a small chart for each series, what needs a look first."""

from collections.abc import Iterable
from dataclasses import dataclass

from jinja2 import Environment, StrictUndefined

from attnbench.analyze.trend import Trends
from attnbench.report.questions.trend.card import Card, card
from attnbench.report.questions.trend.names import track_names
from attnbench.report.questions.trend.template import TEMPLATE
from attnbench.report.questions.trend.words import commits, conclusion, ends, extent, factor, notes, title, word
from attnbench.report.text.names import one_line

_MOST_POINTS, _ALL_POINTS, _FEWEST_POINTS = 160, 30_000, 40
"""Of one chart, of all together, and of one chart where there are very many."""
_ROWS = 50
_CHARTS = (
    "Charts: a point a run, in the order of the runs, each on a logarithmic axis of its own; lines: levels; "
    "▲ slower or more, ▼ faster or less, large × lost, ○ gained; small × below: the cell failed in that run. "
    "±: standard deviation; from run to run by the differences of neighbours, within a run between its replicates."
)


@dataclass(frozen=True)
class _Group:
    name: str
    cards: tuple[Card, ...]


@dataclass(frozen=True)
class _Suite:
    name: str
    machine: str
    groups: tuple[_Group, ...]


@dataclass(frozen=True)
class _Row:
    """Of the table of what changed, by the newest change of each series."""

    card: Card
    word: str
    name: str
    before: str
    after: str
    factor: str
    since: str


@dataclass(frozen=True)
class _Page:
    title: str
    extent: str
    conclusion: str
    rows: tuple[_Row, ...]
    more: int
    suites: tuple[_Suite, ...]
    notes: tuple[str, ...]


def page(trends: Trends) -> str:
    """HTML of one file, which needs neither a network nor a script; whatever is in a name is inert."""
    # names, reasons and machines come from users: all that is not in the template is escaped
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.from_string(TEMPLATE).render(page=_page(trends))


def _page(trends: Trends) -> _Page:
    cards = _cards(trends)
    changed = [each for each in cards if each.trend.turns]
    return _Page(
        title=one_line(title(trends)),
        extent=extent(trends),
        conclusion=conclusion(trends),
        rows=tuple(_row(trends, each) for each in changed[:_ROWS]),
        more=max(0, len(changed) - _ROWS),
        suites=_suites(cards),
        notes=(*notes(trends), _CHARTS),
    )


def _cards(trends: Trends) -> list[Card]:
    """The worst first."""
    names = track_names(trend.track for trend in trends.trends)
    most = max(_FEWEST_POINTS, min(_MOST_POINTS, _ALL_POINTS // max(1, len(trends.trends))))
    named = ((trend, names[trend.track.suite, trend.track.cell.key]) for trend in trends.trends)
    cards = [card(trends, trend, f"s{number}", name, most) for number, (trend, name) in enumerate(named)]
    return sorted(cards, key=lambda each: each.rank)


def _suites(cards: Iterable[Card]) -> tuple[_Suite, ...]:
    """By suite and machine, and therein by workload; each in the order of the worst that it holds."""
    found: dict[tuple[str, str], dict[str, list[Card]]] = {}
    for each in cards:
        track = each.trend.track
        groups = found.setdefault((track.suite, track.machine), {})
        groups.setdefault(track.cell.workload.value, []).append(each)
    return tuple(
        _Suite(suite, one_line(machine), tuple(_Group(name, tuple(members)) for name, members in groups.items()))
        for (suite, machine), groups in found.items()
    )


def _row(trends: Trends, each: Card) -> _Row:
    turn = each.trend.turns[-1]
    before, after = ends(turn, trends.metric)
    old, new = trends.entries[turn.last], trends.entries[turn.first]
    return _Row(
        card=each,
        word=word(turn.verdict, trends.metric),
        name=f"{each.trend.track.suite}: {each.name}",
        before=before,
        after=after,
        factor=factor(turn),
        since="; ".join(filter(None, (new.date, commits(old, new)))),
    )
