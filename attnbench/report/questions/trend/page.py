"""Trends as one page: what changed, a small chart for each series that needs a look most, and a table of the others."""

import math
from collections.abc import Mapping

from attnbench.analyze.quantities import TIME
from attnbench.analyze.trend import Trend, Trends
from attnbench.analyze.verdict import Verdict
from attnbench.report.questions.trend import words
from attnbench.report.questions.trend.chart import pictures, runs_a_point
from attnbench.report.questions.trend.names import track_names
from attnbench.report.text.html import rendered
from attnbench.report.text.statuses import short
from attnbench.schema.units import counted

MOST = 60
"""Series with a chart; the others are rows of a table."""
_ROWS, _TURNS = 50, 3
_CHARTS = (
    "Charts: a point a run, in the order of the runs, each on a logarithmic axis of its own; lines: levels; "
    "▲ slower or more, ▼ faster or less, large × lost, ○ gained; small × below: the cell failed in that run. "
    "±: standard deviation; from run to run by the differences of neighbours, within a run between its replicates."
)


def page(trends: Trends) -> str:
    """Write HTML of one file, which needs neither a network nor a script; whatever is in a name is inert."""
    names = track_names(trend.track for trend in trends.trends)
    ordered = words.worst_first(trends)
    charts = pictures(trends, ordered[:MOST])
    cards = [_card(trends, trend, f"s{i}", names, next(charts, "")) for i, trend in enumerate(ordered)]
    # by suite and machine, and therein by workload; each in the order of the worst that it holds
    suites: dict[tuple[str, str], dict[str, list[Mapping[str, object]]]] = {}
    for trend, card in zip(ordered[:MOST], cards, strict=False):
        groups = suites.setdefault((trend.track.suite, trend.track.machine), {})
        groups.setdefault(trend.track.cell.workload.words, []).append(card)
    changed, rows = [(trend, card) for trend, card in zip(ordered, cards, strict=True) if trend.turns], []
    for trend, card in changed[:_ROWS]:
        turn = trend.turns[-1]
        old, new = trends.entries[turn.last], trends.entries[turn.first]
        since = words.joined("; ", new.date, words.commits(old, new))
        rows.append((card, (*words.change(turn, trends.quantity), since)))
    return rendered(
        "attnbench.report.questions.trend",
        "page.html",
        title=words.title(trends),
        extent=words.extent(trends),
        conclusion=words.conclusion(trends),
        rows=rows,
        more=max(0, len(changed) - _ROWS),
        suites=suites,
        others=cards[MOST:],
        notes=(*words.notes(trends), _CHARTS),
    )


def _card(trends: Trends, trend: Trend, anchor: str, names: dict[tuple[str, str], str], picture: str) -> Mapping[str, object]:
    """Say of one series what its card or its row shows."""
    quantity, track, turns = trends.quantity, trend.track, []
    for turn in reversed(trend.turns[-_TURNS:]):
        old, new = trends.entries[turn.last], trends.entries[turn.first]
        _, before, after, _ = words.change(turn, quantity)
        what = f"{words.head(turn, quantity)}: {before} → {after}"
        why = turn.reason if turn.verdict is Verdict.LOST else ""
        where = f"{new.date}, run {new.run}"
        turns.append(words.joined("; ", what, why, where, words.commits(old, new), *words.about(trends, trend, turn)))
    if len(trend.turns) > _TURNS:
        turns.append(f"and {len(trend.turns) - _TURNS} earlier")
    newest = words.number(trend.newest, quantity) or f"no {quantity.title}"
    if trend.failing:
        status, reason = track.reasons[int(track.failures[-1])]
        newest = short(status)
        turns = turns or [words.joined(": ", status, reason)]
    count, size = len(trend.used), runs_a_point(trend)
    varies = [f"from run to run ±{100 * trend.noise:.1f}%"] if count > 1 else []
    if count and quantity.name == TIME and not math.isnan(trend.spread):
        varies.append(f"within a run ±{100 * trend.spread:.1f}%")
    about = [f"{counted(count, 'run')} with a number", ", ".join(varies)]
    if trend.state is Verdict.UNCLEAR:
        about.append(f"UNCLEAR: the smallest change that it could show is {words.could_show(trend)}")
    if picture and size > 1:
        about.append(f"a point is {size} runs: median, shaded from least to greatest")
    return {
        "trend": trend,
        "anchor": anchor,
        "name": names[track.suite, track.cell.key],
        "word": words.head(trend.turns[-1], quantity) if trend.turns else "",
        "newest": newest,
        "turns": turns,
        "about": words.joined("; ", *about),
        "picture": picture,
    }
