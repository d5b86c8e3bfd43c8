"""Trends for a terminal: 80 columns, the newest changes first, together where they came with the same run."""

import textwrap

from tabulate import tabulate

from attnbench.analyze.trend import Trend, Trends, Turn
from attnbench.analyze.verdict import Verdict
from attnbench.report.questions.trend.names import track_names
from attnbench.report.questions.trend.words import (
    ORDER,
    about,
    commits,
    conclusion,
    effect,
    ends,
    extent,
    factor,
    notes,
    title,
    word,
)
from attnbench.report.text.names import ascii_only, one_line, short_names

WIDTH = 80
_NAMES = (60, 52, 46, 41, 36)
_INDENT = "  "
_Told = list[tuple[Trend, Turn]]


def console(trends: Trends, *, unicode: bool = True) -> str:
    """Changes by the run that they came with, how many there are, and how they were found."""
    names = track_names(trend.track for trend in trends.trends)
    lines = _wrapped(f"{title(trends)}; {extent(trends)}")
    for told in _by_run(trends):
        lines += ["", *_head(trends, told), *_rows(trends, told, names)]
    lines += ["", *_wrapped(f"{conclusion(trends)}."), "", *(part for note in notes(trends) for part in _wrapped(note))]
    text = "\n".join(lines)
    return text if unicode else ascii_only(text)


def _by_run(trends: Trends) -> list[_Told]:
    """Newest first; changes of one suite and machine that lie between the same two runs are together."""
    found: dict[tuple[int, int, str, str], _Told] = {}
    for trend, turn in trends.turns:
        found.setdefault((turn.first, turn.last, trend.track.suite, trend.track.machine), []).append((trend, turn))
    newest = sorted(found.items(), key=lambda each: each[0], reverse=True)
    return [sorted(told, key=_rank) for _, told in newest]


def _rank(each: tuple[Trend, Turn]) -> tuple[int, float]:
    return ORDER.index(each[1].verdict), effect(each[1])


def _head(trends: Trends, told: _Told) -> list[str]:
    """The run, the one before, and what else changed between the two; and the machine where there are several."""
    (trend, turn), entries = told[0], trends.entries
    old, new = entries[turn.last], entries[turn.first]
    first = ", ".join(filter(None, (new.suite, new.date, f"run {new.run}", commits(old, new))))
    machines = {trend.track.machine for trend in trends.trends}
    several = [f"on {trend.track.machine}"] if len(machines) > 1 else []
    changes = dict.fromkeys(change for trend, turn in told for change in about(entries, trend, turn))
    lines = [f"the run before: {old.date}, {old.run}", *several, *([f"changed: {'; '.join(changes)}"] if changes else [])]
    return [*_wrapped(first), *(part for line in lines for part in _wrapped(line, _INDENT))]


def _rows(trends: Trends, told: _Told, names: dict[tuple[str, str], str]) -> list[str]:
    """With as much of the names as fits."""
    named = [names[trend.track.suite, trend.track.cell.key] for trend, _ in told]
    for width in _NAMES:
        short = short_names(named, width)
        lines = _grid(trends, told, [short[name] for name in named])
        if max(map(_columns, lines)) <= WIDTH - len(_INDENT):
            break
    reasons = [f"{turn.status}: {turn.reason}" for _, turn in told if turn.verdict is Verdict.LOST and turn.reason]
    why = dict.fromkeys(f"LOST: {one_line(reason)}" for reason in reasons)
    return [*(f"{_INDENT}{line}".rstrip() for line in lines), *(part for line in why for part in _wrapped(line, _INDENT))]


def _grid(trends: Trends, told: _Told, names: list[str]) -> list[str]:
    each = zip(told, names, strict=True)
    rows = [(word(turn.verdict, trends.metric), name, *ends(turn, trends.metric), factor(turn)) for (_, turn), name in each]
    align = ("left", "left", "right", "right", "left")
    return tabulate(rows, ["", "", "before", "after", ""], tablefmt="plain", colalign=align, disable_numparse=True).split("\n")


def _wrapped(text: str, indent: str = "") -> list[str]:
    """Narrower where signs become several letters."""
    for width in range(WIDTH, WIDTH // 2, -1):
        lines = textwrap.wrap(one_line(text), width, initial_indent=indent, subsequent_indent=f"{indent}  ")
        if max(map(_columns, lines), default=0) <= WIDTH:
            break
    return lines


def _columns(line: str) -> int:
    """At most, on any terminal."""
    return max(len(line), len(ascii_only(line)))
