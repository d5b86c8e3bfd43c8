"""What a page says of one trend: a chart, the newest number, the newest changes."""

import math
from dataclasses import dataclass

from attnbench.analyze.trend import Metric, Trend, Trends, Turn
from attnbench.analyze.verdict import Verdict
from attnbench.report.questions.trend.chart import chart
from attnbench.report.questions.trend.drawing import Drawing, drawing
from attnbench.report.questions.trend.words import ORDER, about, commits, could_show, effect, ends, factor, quantity, word
from attnbench.report.text.names import one_line
from attnbench.report.text.statuses import short

_TURNS = 3


@dataclass(frozen=True)
class Card:
    """Text already, but for the trend that it is about."""

    trend: Trend
    anchor: str
    name: str
    word: str
    """How the newest change went; empty where there is none."""
    newest: str
    turns: tuple[str, ...]
    about: str
    drawn: Drawing | None
    low: str
    high: str
    first: str
    last: str

    @property
    def verdict(self) -> str:
        """The class of its colours."""
        return self.trend.state.value

    @property
    def rank(self) -> tuple[int, float]:
        """What needs a look comes first, and of one kind the largest change."""
        return ORDER.index(self.trend.state), effect(self.trend.turns[-1]) if self.trend.turns else 0.0


def card(trends: Trends, trend: Trend, anchor: str, name: str, most: int) -> Card:
    """With at most about `most` points in its chart."""
    shown, metric, runs = chart(trend, most), trends.metric, trend.track.runs
    visible = not shown.empty or shown.failures
    return Card(
        trend=trend,
        anchor=anchor,
        name=one_line(name),
        word=head(trend.turns[-1], metric) if trend.turns else "",
        newest=_newest(trend),
        turns=_turns(trends, trend),
        about=_about(trend, shown.bucket),
        drawn=drawing(shown, lambda turn: told(trends, trend, turn)) if visible else None,
        low="" if shown.empty else quantity(shown.low, metric),
        high="" if shown.empty else quantity(shown.high, metric),
        first=trends.entries[runs[0]].date,
        last=trends.entries[runs[-1]].date,
    )


def head(turn: Turn, metric: Metric) -> str:
    """`SLOWER 1.10× ±2%`."""
    return _joined(" ", word(turn.verdict, metric), factor(turn))


def told(trends: Trends, trend: Trend, turn: Turn) -> str:
    """`SLOWER 1.10× ±2%: 12.3 ms → 13.5 ms; 2026-02-03, run …; commit a..b; torch 2.12.0 → 2.13.0`."""
    old, new = trends.entries[turn.last], trends.entries[turn.first]
    what = f"{head(turn, trends.metric)}: {' → '.join(ends(turn, trends.metric))}"
    why = turn.reason if turn.verdict is Verdict.LOST else ""
    where = f"{new.date}, run {new.run}"
    return one_line(_joined("; ", what, why, where, commits(old, new), *about(trends.entries, trend, turn)))


def _newest(trend: Trend) -> str:
    """The newest number, or how the cell fails."""
    if trend.failing:
        return short(_failure(trend)[0])
    return quantity(trend.newest, trend.metric) or f"no {trend.metric.value}"


def _failure(trend: Trend) -> tuple[str, str]:
    """Status and reason in the newest run."""
    return trend.track.reasons[trend.track.failures[-1]]


def _turns(trends: Trends, trend: Trend) -> tuple[str, ...]:
    """The newest changes, newest first; of a cell that fails without one, how."""
    if not trend.turns:
        return (one_line(_joined(": ", *_failure(trend))),) if trend.failing else ()
    newest = [told(trends, trend, turn) for turn in reversed(trend.turns[-_TURNS:])]
    earlier = len(trend.turns) - len(newest)
    return (*newest, *([f"and {earlier} earlier"] if earlier else []))


def _about(trend: Trend, bucket: int) -> str:
    """How many runs, and how much they vary."""
    count = len(trend.used)
    noise = f"from run to run ±{100 * trend.noise:.1f}%" if count > 1 else ""
    timed = count > 0 and trend.metric is Metric.TIME and not math.isnan(trend.spread)
    spread = f"within a run ±{100 * trend.spread:.1f}%" if timed else ""
    drawn = f"a point is {bucket} runs: median, shaded from least to greatest" if bucket > 1 else ""
    hidden = f"UNCLEAR: the smallest change that it could show is {could_show(trend)}" if trend.state is Verdict.UNCLEAR else ""
    return _joined("; ", f"{count} run{'s' if count != 1 else ''} with a number", _joined(", ", noise, spread), hidden, drawn)


def _joined(by: str, *texts: str) -> str:
    """Without what is empty."""
    return by.join(filter(None, texts))
