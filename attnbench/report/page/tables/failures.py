"""The map of failures: methods by lengths, the status in its place; those that never failed are only counted."""

from collections import Counter
from dataclasses import dataclass

from markupsafe import Markup

from attnbench.analyze.cells import NOT_RUN, OK
from attnbench.report.page.board import Board, Place
from attnbench.report.text.html import head, safe
from attnbench.report.text.statuses import reasons, short
from attnbench.schema.units import length

_Line = dict[int, tuple[int, Place]]
"""Of one method and run: by length, the number of the cell and the cell."""


@dataclass(frozen=True)
class FailureMap:
    """Of one group."""

    words: str
    """How many cells failed, and of what."""
    grid: Markup
    """Empty where none did."""
    reasons: tuple[str, ...]


def failure_map(board: Board, number: int) -> FailureMap:
    """Of the group of that number."""
    group, lines = board.groups[number], _lines(board, number)
    failing = {key: line for key, line in lines.items() if any(not place.summary.ok for _, place in line.values())}
    rows = "".join(_row(board, key, line, group.lengths) for key, line in failing.items())
    heads = ("method", *(length(N) for N in group.lengths))
    caption = f'<caption class="unseen">{safe(f"What ran and what failed: {group.title}")}</caption>'
    # every text went through `safe`
    grid = Markup(f"<table class=map>{caption}{head(heads)}<tbody>\n{rows}</tbody></table>" if failing else "")  # noqa: S704
    why = [line for _, section in group.members for line in reasons(section.summaries)]
    statuses = [place.summary.status for line in lines.values() for _, place in line.values()]
    words = f"{_words(statuses)}{_never(len(lines) - len(failing)) if failing else ''}"
    return FailureMap(words, grid, tuple(dict.fromkeys(why)))


def _lines(board: Board, number: int) -> dict[tuple[int, int], _Line]:
    """By run and method."""
    lines: dict[tuple[int, int], _Line] = {}
    for cell, place in enumerate(board.places):
        if place.group == number:
            lines.setdefault((place.run, place.method), {})[place.summary.cell.problem.N] = (cell, place)
    return lines


def _row(board: Board, key: tuple[int, int], line: _Line, lengths: tuple[int, ...]) -> str:
    run, method = key
    name = board.method_names[board.labels[method]]
    name = f"{name}, {board.names[run]}" if len(board.runs) > 1 else name
    return f"<tr><th scope=row>{safe(name)}{''.join(_entry(line.get(N)) for N in lengths)}\n"


def _entry(found: tuple[int, Place] | None) -> str:
    """A length that the suite does not have for the method stays empty."""
    if found is None:
        return "<td>"
    cell, place = found
    # statuses are words of our own
    return f"<td class=s-{place.summary.status} data-cell={cell}>{safe(short(place.summary.status))}"


def _words(statuses: list[str]) -> str:
    """`9 of 24 cells failed: 6 budget, 3 OOM`, as a sentence."""
    failed = Counter(short(status) for status in statuses if status not in {OK, NOT_RUN})
    not_run = statuses.count(NOT_RUN)
    if not failed and not not_run:
        return f"All {len(statuses)} cells were measured."
    parts = ", ".join(f"{count} {name}" for name, count in failed.most_common())
    told = f"{failed.total()} of {len(statuses)} cells failed: {parts}." if failed else f"None of {len(statuses)} cells failed."
    return f"{told} {not_run} were not run." if not_run else told


def _never(whole: int) -> str:
    if not whole:
        return ""
    words = "1 method ran at every length and is" if whole == 1 else f"{whole} methods ran at every length and are"
    return f" {words} not listed."
