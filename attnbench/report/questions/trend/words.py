"""Trends in words: numbers with their units, what happened between two runs, and how it all was found."""

import math
from collections import Counter
from collections.abc import Sequence

from attnbench.analyze.change_points import FEWEST, LEVEL, STAY
from attnbench.analyze.statistics import Estimate
from attnbench.analyze.trend import Metric, Trend, Trends, Turn
from attnbench.analyze.verdict import Verdict
from attnbench.report.text.names import one_line
from attnbench.report.text.numbers import margin, percent
from attnbench.report.text.statuses import short
from attnbench.schema.history import Entry
from attnbench.schema.units import bytes_, seconds, three_digits

_MEMORY = {Verdict.SLOWER: "MORE", Verdict.FASTER: "LESS"}
ORDER = (Verdict.LOST, Verdict.SLOWER, Verdict.FASTER, Verdict.GAINED, Verdict.ABSENT, Verdict.UNCLEAR, Verdict.SAME)
"""What needs a look comes first."""
_UNREADABLE = 8
_TENFOLD = 9.0
"""As a share: what few runs of much noise could show is beyond all words."""
_WHAT = {
    Metric.TIME: "Time",
    Metric.MEMORY: "Memory (by the counter that each series was last read by; less than 1 MiB counts as that)",
}


def word(verdict: Verdict, metric: Metric) -> str:
    """`SLOWER`, or of memory `MORE`."""
    return _MEMORY.get(verdict, verdict.value) if metric is Metric.MEMORY else verdict.value


def quantity(value: float, metric: Metric) -> str:
    """`12.3 ms`, `64.0 MiB`; empty where there is none."""
    if math.isnan(value):
        return ""
    return seconds(value) if metric is Metric.TIME else bytes_(value)


def ends(turn: Turn, metric: Metric) -> tuple[str, str]:
    """Before and after: numbers, or the status where a cell failed."""
    before, after = (
        quantity(value, metric) or (short(turn.status) if turn.status else "") for value in (turn.before, turn.after)
    )
    return before, after


def factor(turn: Turn) -> str:
    """`1.10× ±2%`; empty of what was lost or gained."""
    if turn.interval is None:
        return ""
    return f"{three_digits(turn.factor)}×{margin(Estimate(turn.factor, turn.interval))}"


def effect(turn: Turn) -> float:
    """How far from no change, either way; what has no factor comes first."""
    return -math.inf if turn.interval is None else -abs(math.log(turn.factor))


def commits(old: Entry, new: Entry) -> str:
    """`commit 1a2b3c4d..5d6e7f80`; empty where a run was outside of a checkout."""
    if not (old.commit and new.commit):
        return ""
    if (old.commit, old.dirty) == (new.commit, new.dirty):
        return one_line(f"commit {new.short_commit}, as before")
    return one_line(f"commit {old.short_commit}..{new.short_commit}")


def about(entries: Sequence[Entry], trend: Trend, turn: Turn) -> list[str]:
    """What changed along with it, as far as the runs tell: software, device, the method's own source.

    A step is dated give or take one run; where nothing else changed just then, what did one run off is told as that.
    """
    method, runs = trend.track.cell.method, trend.track.runs
    changes = entries[turn.last].changes_to(entries[turn.first], method)
    if changes or turn.interval is None:
        return [one_line(change) for change in changes]
    before, after = runs[max(0, turn.at - 2)], runs[min(len(runs) - 1, turn.at + 1)]
    return [one_line(f"{change} (one run off)") for change in entries[before].changes_to(entries[after], method)]


def title(trends: Trends) -> str:
    """`Trend of time: quick, scaling`."""
    suites = dict.fromkeys(trend.track.suite for trend in trends.trends)
    return f"Trend of {trends.metric.value}: {', '.join(suites) or 'no runs'}"


def extent(trends: Trends) -> str:
    """`60 runs, 2026-01-02 to 2026-03-02; 48 series, each of a cell on one machine`."""
    suites = {trend.track.suite for trend in trends.trends}
    readable = [entry for entry in trends.entries if entry.suite in suites and not entry.base]
    if not readable:
        return "no run with a point"
    dates = dict.fromkeys((readable[0].date, readable[-1].date))
    return f"{len(readable)} runs, {' to '.join(dates)}; {len(trends.trends)} series, each of a cell on one machine"


def conclusion(trends: Trends) -> str:
    """`2 SLOWER, 1 LOST; 45 of 48 series without a change: 5 UNCLEAR, 40 SAME`."""
    changes = Counter(turn.verdict for _, turn in trends.turns)
    quiet = Counter(trend.state for trend in trends.trends if not trend.turns)
    words = [
        ", ".join(f"{counts[verdict]} {word(verdict, trends.metric)}" for verdict in ORDER if counts[verdict])
        for counts in (changes, quiet)
    ]
    still = f"{quiet.total()} of {len(trends.trends)} series without a change"
    return f"{words[0] or 'No change was found'}; {': '.join(filter(None, (still, words[1])))}"


def could_show(trend: Trend) -> str:
    """`+12%`, the smallest change that could have been seen; `none` where no change could."""
    if math.isinf(trend.smallest):
        return "none"
    return f"+{percent(trend.smallest)}" if trend.smallest < _TENFOLD else "more than tenfold"


def notes(trends: Trends) -> list[str]:
    """How changes are found, and what nothing is said of."""
    what = _WHAT[trends.metric]
    lines = [
        f"{what} per sample of the batch; a run counts once, by the median of its replicate medians.",
        f"A change is at least {percent(trends.margin)}, stays for {STAY} runs or more, and is more than the noise from run "
        f"to run explains (t, p ≤ {LEVEL:g} after correction for all places and {len(trends.trends)} series). It is dated to "
        f"a run, give or take one. Before, after: geometric means of the levels; ±: 95 % t interval. "
        f"A single bad run is no change; slow drift may be dated anywhere in it.",
        "Series: one cell of a suite on one machine (GPU, processor, cores, threads); versions of software may change in it.",
    ]
    since = [f"Only changes from {trends.entries[trends.since].date} on are told."] if _later(trends) else []
    return [*lines, *since, *_unclear(trends), *_silent(trends), *_unread(trends)]


def _unclear(trends: Trends) -> list[str]:
    """What was not seen, and could not have been."""
    unclear = [trend for trend in trends.trends if trend.state is Verdict.UNCLEAR]
    known = sorted((trend for trend in unclear if not math.isinf(trend.smallest)), key=lambda trend: trend.smallest)
    if not unclear:
        return []
    ends_ = list(dict.fromkeys(map(could_show, (known[0], known[-1])))) if known else []
    seen = f"; of {len(known)} of them the smallest that could is {' to '.join(ends_)}" if known else ""
    return [
        f"UNCLEAR: {len(unclear)} series could not have shown a change of {percent(trends.margin)}{seen} (nine times in ten, "
        "in the middle of the newest level). More runs, or more replicates a run, show smaller ones."
    ]


def _later(trends: Trends) -> bool:
    return 0 < trends.since < len(trends.entries) and not trends.entries[trends.since].problem


def _silent(trends: Trends) -> list[str]:
    """Series and points that nothing is said of."""
    counts = {
        f"series have fewer than {FEWEST} runs with a number: no change of it can be seen yet": sum(
            len(trend.used) > 0 and trend.few for trend in trends.trends
        ),
        f"series have no {trends.metric.value} at all": sum(not len(trend.used) for trend in trends.trends),
        "failures passed by the next run, and are no change": sum(trend.passing for trend in trends.trends),
        "numbers were read by another counter, and are left out": sum(trend.other_counters for trend in trends.trends),
    }
    return [f"{count} {words}." for words, count in counts.items() if count]


def _unread(trends: Trends) -> list[str]:
    """Runs that cannot be read, with the reason; and those that are not whole."""
    bad = trends.unreadable
    lines = [f"Cannot be read: {one_line(entry.place)}: {one_line(entry.problem)}" for entry in bad[:_UNREADABLE]]
    more = [f"{len(bad) - _UNREADABLE} more runs cannot be read: attnbench history list"] if len(bad) > _UNREADABLE else []
    unfinished = sum(bool(entry.unfinished) for entry in trends.entries)
    return [
        *lines,
        *more,
        *([f"{unfinished} runs are not whole: cells that were not run have no point."] if unfinished else []),
    ]
