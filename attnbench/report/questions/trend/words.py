"""Trends in words: what happened between two runs, and how it was found; all of it for a terminal, and as JSON."""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable

from tabulate import tabulate

from attnbench.analyze.change_points import FEWEST, LEVEL, STAY
from attnbench.analyze.compare import EXACT
from attnbench.analyze.quantities import MEMORY, TIME, Center, Quantity, Unit
from attnbench.analyze.statistics import Estimate
from attnbench.analyze.trend import SMALLEST_SHARE, Trend, Trends, Turn
from attnbench.analyze.verdict import Verdict
from attnbench.report.questions.trend.names import track_names
from attnbench.report.text.names import ascii_only, one_line, short_names
from attnbench.report.text.numbers import factor, percent, written
from attnbench.report.text.statuses import short
from attnbench.report.text.table import WIDTH, wrapped
from attnbench.schema.history import Entry
from attnbench.schema.units import counted

ORDER = (Verdict.LOST, Verdict.SLOWER, Verdict.FASTER, Verdict.GAINED, Verdict.ABSENT, Verdict.UNCLEAR, Verdict.SAME)
"""What needs a look comes first."""
_UNREADABLE = 8
_TENFOLD = 9.0
"""As a share: a few runs with much noise could show only changes that no number describes well."""
_NAMES = (60, 52, 46, 41, 36)
"""Widths of names, the first of which leaves room for the numbers is taken."""
_INDENT = "  "


def joined(by: str, *texts: str) -> str:
    """Join the texts that are not empty."""
    return by.join(filter(None, texts))


def word(verdict: Verdict, quantity: Quantity) -> str:
    """Return `SLOWER` or `FASTER` for a time, and `MORE` or `LESS` for any other quantity."""
    if quantity.unit is Unit.SECONDS or verdict not in {Verdict.SLOWER, Verdict.FASTER}:
        return verdict.value
    return "LESS" if (verdict is Verdict.SLOWER) == quantity.more_is_better else "MORE"


def number(value: float, quantity: Quantity) -> str:
    """Return `12.3 ms` or `64.0 MiB`; nothing where there is no number."""
    return "" if math.isnan(value) else written(value, quantity.unit)


def change(turn: Turn, quantity: Quantity) -> tuple[str, str, str, str]:
    """Return what happened, what was before and after (a number, or the status of a cell that failed), and by how much.

    The last is empty where a cell was lost or gained.
    """
    # a cell that was lost, or gained, failed on one side; on the other its figure may not have been recorded
    others = ("n/a", short(turn.status)) if turn.verdict is Verdict.LOST else (short(turn.status), "n/a")
    before, after = (number(end, quantity) or other for end, other in zip((turn.before, turn.after), others, strict=True))
    return word(turn.verdict, quantity), before, after, factor(Estimate(turn.factor, turn.interval) if turn.interval else None)


def head(turn: Turn, quantity: Quantity) -> str:
    """Return `SLOWER 1.10× ±2%`."""
    what, _, _, by = change(turn, quantity)
    return joined(" ", what, by)


def rank(verdict: Verdict, turn: Turn | None) -> tuple[int, float]:
    """Return a key to sort by: what needs a look comes first, and of one kind what was lost and then the largest change."""
    effect = 0.0 if turn is None else -abs(math.log(turn.factor)) if turn.interval else -math.inf
    return ORDER.index(verdict), effect


def worst_first(trends: Trends) -> list[Trend]:
    """Return the trends that need a look most first, by their newest change."""

    def key(trend: Trend) -> tuple[int, float]:
        # one that is as slow as before it was lost, or has no number now, is a regression all the same
        state = Verdict.SLOWER if trend.regressed and trend.state is not Verdict.LOST else trend.state
        return rank(state, trend.turns[-1] if trend.turns else None)

    return sorted(trends.trends, key=key)


def commits(old: Entry, new: Entry) -> str:
    """Return `commit 1a2b3c4d..5d6e7f80`; nothing where a run was outside of a checkout."""
    if not (old.commit and new.commit):
        return ""
    if (old.commit, old.dirty) == (new.commit, new.dirty):
        return one_line(f"commit {new.short_commit}, as before")
    return one_line(f"commit {old.short_commit}..{new.short_commit}")


def about(trends: Trends, trend: Trend, turn: Turn) -> list[str]:
    """Return what changed along with it, as far as the runs tell: software, device, the method's own source.

    A step is dated give or take one run; where nothing else changed just then, what did one run off is told as that.
    """
    method, runs, entries = trend.track.cell.method, trend.track.runs, trends.entries
    changes = entries[turn.last].changes_to(entries[turn.first], method)
    if changes or turn.interval is None:
        return [one_line(change) for change in changes]
    before, after = runs[max(0, turn.at - 2)], runs[min(len(runs) - 1, turn.at + 1)]
    return [one_line(f"{change} (one run off)") for change in entries[before].changes_to(entries[after], method)]


def title(trends: Trends) -> str:
    """Return `Trend of time: quick, scaling`."""
    suites = dict.fromkeys(trend.track.suite for trend in trends.trends)
    better = " (more is better)" if trends.quantity.more_is_better else ""
    return f"Trend of {trends.quantity.title}{better}: {', '.join(suites) or 'no runs'}"


def extent(trends: Trends) -> str:
    """Return `60 runs, 2026-01-02 to 2026-03-02; 48 series, each of a cell on one machine`."""
    suites = {trend.track.suite for trend in trends.trends}
    readable = [entry for entry in trends.entries if entry.suite in suites and not entry.base]
    if not readable:
        return "no run with a point"
    dates = dict.fromkeys((readable[0].date, readable[-1].date))
    return f"{counted(len(readable), 'run')}, {' to '.join(dates)}; {len(trends.trends)} series, each of a cell on one machine"


def conclusion(trends: Trends) -> str:
    """Return `2 SLOWER, 1 LOST; 45 of 48 series without a change: 5 UNCLEAR, 40 SAME`."""

    def tally(verdicts: Iterable[Verdict]) -> str:
        counts = Counter(verdicts)
        return ", ".join(f"{counts[verdict]} {word(verdict, trends.quantity)}" for verdict in ORDER if counts[verdict])

    quiet = [trend.state for trend in trends.trends if not trend.turns]
    changes = tally(turn.verdict for _, turn in trends.turns) or "No change was found"
    return f"{changes}; {joined(': ', f'{len(quiet)} of {len(trends.trends)} series without a change', tally(quiet))}"


def could_show(trend: Trend) -> str:
    """Return `+12%`, the smallest change that could have been seen; `none` where no change could."""
    if math.isinf(trend.smallest):
        return "none"
    return f"+{percent(trend.smallest)}" if trend.smallest < _TENFOLD else "more than tenfold"


def notes(trends: Trends) -> list[str]:
    """Say how changes are found, and which series, numbers and runs nothing is said about."""
    each, quantity, entries = trends.trends, trends.quantity, trends.entries
    what = {TIME: "Time per sample of the batch", MEMORY: "Memory per sample, by the counter that each series was last read by"}
    named = what.get(quantity.name, f"{quantity.title[0].upper()}{quantity.title[1:]}")
    floor = "; less than 1 MiB of a call counts as that" if quantity.unit is Unit.BYTES and quantity.name not in EXACT else ""
    floor = f"; less than {percent(SMALLEST_SHARE)} counts as that" if quantity.bounds == (0.0, 1.0) else floor
    how = "mean" if quantity.center is Center.SUMS else "median"
    lines = [
        f"{named}{floor}; a run counts once, by the {how} of its replicates.",
        f"A change is at least {percent(trends.margin)}, stays for {STAY} runs or more, and is more than the noise from run "
        f"to run explains (t, p ≤ {LEVEL:g} after correction for all places and {len(each)} series). It is dated to "
        f"a run, give or take one. Before, after: geometric means of the levels; ±: 95 % t interval. "
        f"A single bad run is no change; slow drift may be dated anywhere in it.",
        "Series: one cell of a suite on one machine (GPU, processor, cores, threads); versions of software may change in it.",
    ]
    if 0 < trends.since < len(entries) and not entries[trends.since].problem:
        lines.append(f"Only changes from {entries[trends.since].date} on are told.")
    if unclear := [trend for trend in each if trend.state is Verdict.UNCLEAR]:
        known = sorted((trend for trend in unclear if not math.isinf(trend.smallest)), key=lambda trend: trend.smallest)
        between = " to ".join(dict.fromkeys(map(could_show, known[:1] + known[-1:])))
        seen = f"; of {len(known)} of them the smallest that could is {between}" if known else ""
        lines.append(
            f"UNCLEAR: {len(unclear)} series could not have shown a change of {percent(trends.margin)}{seen} (nine times in "
            "ten, in the middle of the newest level). More runs, or more replicates a run, show smaller ones."
        )
    silent = {
        f"Series with a number in fewer than {FEWEST} runs, where no change can be seen yet": sum(
            0 < len(trend.used) < FEWEST for trend in each
        ),
        f"Series without any {quantity.title}": sum(not len(trend.used) for trend in each),
        "Failures that the next run passed, which are no change": sum(trend.passing for trend in each),
        "Left out, read by another counter": sum(trend.other_counters for trend in each),
        "Left out, being 0 or less and without a ratio to others": sum(trend.not_positive for trend in each),
    }
    lines += [f"{words}: {count}." for words, count in silent.items() if count]
    bad = [entry for entry in entries if entry.problem]
    lines += [f"Cannot be read: {one_line(entry.place)}: {one_line(entry.problem)}" for entry in bad[:_UNREADABLE]]
    if len(bad) > _UNREADABLE:
        lines.append(f"Cannot be read: {counted(len(bad) - _UNREADABLE, 'more run')}: attnbench history list")
    if unfinished := sum(bool(entry.unfinished) for entry in entries):
        lines.append(f"Not whole: {counted(unfinished, 'run')}; cells that were not run have no point.")
    return lines


def console(trends: Trends, *, unicode: bool = True) -> str:
    """Write the changes by the run that they came with, how many there are, and how they were found."""
    # some signs become two letters: before lines are broken
    plain = str if unicode else ascii_only
    lines: list[str] = []

    def say(text: str, indent: str = "") -> None:
        lines.append(wrapped(f"{indent}{plain(one_line(text))}"))

    names = track_names(trend.track for trend in trends.trends)
    several = len({trend.track.machine for trend in trends.trends}) > 1
    # changes of one suite and machine that lie between the same two runs are told together
    found: dict[tuple[int, int, str, str], list[tuple[Trend, Turn]]] = {}
    for trend, turn in trends.turns:
        found.setdefault((turn.first, turn.last, trend.track.suite, trend.track.machine), []).append((trend, turn))
    say(f"{title(trends)}; {extent(trends)}")
    for (first, last, suite, machine), told in sorted(found.items(), key=lambda each: each[0], reverse=True):
        told.sort(key=lambda each: rank(each[1].verdict, each[1]))
        old, new = trends.entries[last], trends.entries[first]
        lines.append("")
        say(joined(", ", suite, new.date, f"run {new.run}", commits(old, new)))
        say(f"the run before: {old.date}, {old.run}", _INDENT)
        if several:
            say(f"on {machine}", _INDENT)
        if changes := dict.fromkeys(change for trend, turn in told for change in about(trends, trend, turn)):
            say(f"changed: {'; '.join(changes)}", _INDENT)
        lines += _rows(trends, told, [names[trend.track.suite, trend.track.cell.key] for trend, _ in told], plain)
        lost = (turn for _, turn in told if turn.verdict is Verdict.LOST and turn.reason)
        for reason in dict.fromkeys(one_line(f"{turn.status}: {turn.reason}") for turn in lost):
            say(f"LOST: {reason}", _INDENT)
    lines.append("")
    say(f"{conclusion(trends)}.")
    lines.append("")
    for note in notes(trends):
        say(note)
    return "\n".join(lines)


def _rows(trends: Trends, told: list[tuple[Trend, Turn]], names: list[str], plain: Callable[[str], str]) -> list[str]:
    """Return a row a change, with as much of the names as fits."""
    align = ("left", "left", "right", "right", "left")
    changes = [change(turn, trends.quantity) for _, turn in told]
    for width in _NAMES:
        shown = short_names(names, width)
        rows = [(what, shown[name], *numbers) for (what, *numbers), name in zip(changes, names, strict=True)]
        grid = tabulate(rows, ["", "", "before", "after", ""], tablefmt="plain", colalign=align, disable_numparse=True)
        lines = [f"{_INDENT}{plain(line)}".rstrip() for line in grid.split("\n")]
        if max(map(len, lines)) <= WIDTH:
            break
    return lines


def trend_json(trends: Trends) -> str:
    """Write what was asked, and one object a series in the order of the history; SI units, null for what is missing."""
    names = track_names(trend.track for trend in trends.trends)
    data = {
        "schema_version": 1,
        "title": title(trends),
        "extent": extent(trends),
        "conclusion": conclusion(trends),
        "metric": trends.quantity.name,
        "unit": trends.quantity.unit.value,
        "more_is_better": trends.quantity.more_is_better,
        "margin": trends.margin,
        "notes": notes(trends),
        "series": [
            {
                "suite": trend.track.suite,
                "machine": trend.track.machine,
                "name": names[trend.track.suite, trend.track.cell.key],
                "cell": trend.track.cell.key,
                "state": trend.state.value,
                "runs": len(trend.used),
                "newest": _number(trend.newest),
                "smallest_change_seen": _number(trend.smallest),
                "changes": [_change(trends, turn) for turn in trend.turns],
            }
            for trend in trends.trends
        ],
    }
    return json.dumps(data, allow_nan=False, indent=1, ensure_ascii=False) + "\n"


def _change(trends: Trends, turn: Turn) -> dict[str, object]:
    return {
        "verdict": turn.verdict.value,
        "last_run_before": trends.entries[turn.last].run,
        "first_run_after": trends.entries[turn.first].run,
        "commit_after": trends.entries[turn.first].commit,
        "before": _number(turn.before),
        "after": _number(turn.after),
        "ratio": _number(turn.factor),
        "interval": [turn.interval.low, turn.interval.high] if turn.interval else None,
        "status": turn.status or None,
        "reason": turn.reason or None,
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
