"""The full table: a row for every cell, failed ones with their reason; columns that say the same in every row are told once."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from attnbench.analyze.roofline import roof_share
from attnbench.report.page.board import Board, Place
from attnbench.report.page.charts.columns import Column
from attnbench.report.text.html import row
from attnbench.report.text.names import one_line, shorten
from attnbench.report.text.per import per
from attnbench.report.text.statuses import short
from attnbench.schema.cell import Batch

_LONGEST_REMARK = 300
_ALWAYS = frozenset({"method", "N", "status", "n", "remarks"})
_NUMBERS = frozenset({"N", "B"})
_ORDER = ("method", "tier", "run", "workload", "mask", "conditions", "N", "B", "status")


@dataclass(frozen=True)
class Head:
    """Of one column; the script finds its numbers by the key."""

    key: str
    text: str
    is_text: bool = False


@dataclass(frozen=True)
class CellTable:
    """Heads, rows in the order of the board, and what is the same in all of them."""

    heads: tuple[Head, ...]
    body: Markup
    constant: tuple[str, ...]


def cell_table(board: Board, columns: Sequence[Column]) -> CellTable:
    """Of all cells of all runs."""
    shown = [column for column in columns if column.quantity.scales]
    identities = [_identity(board, place) for place in board.places]
    kept = [key for key in _ORDER if key in _ALWAYS or len({each[key] for each in identities}) > 1]
    heads = (
        *(Head(key, key, key not in _NUMBERS) for key in kept),
        *(Head(column.quantity.key, _title(board, column)) for column in shown),
        Head("n", "n"),
        Head("remarks", "remarks", is_text=True),
    )
    rows = (
        row([*(each[key] for key in kept), *(column.texts[number] for column in shown), _n(place), _remarks(board, place)])
        for number, (place, each) in enumerate(zip(board.places, identities, strict=True))
    )
    # every text above went through `row`
    return CellTable(heads, Markup("".join(rows)), _constant(identities, kept))  # noqa: S704


def _identity(board: Board, place: Place) -> dict[str, str]:
    group, summary = board.groups[place.group], place.summary
    unknown = summary.cell.batch is Batch.LARGEST and "B" not in summary.facts
    return {
        "method": board.method_names[summary.cell.label],
        "tier": board.tier(place),
        "run": board.names[place.run],
        "workload": group.workload.value,
        "mask": group.mask,
        "conditions": group.conditions,
        "N": f"{summary.cell.problem.N:,}",
        "B": "max" if unknown else f"{summary.B:,}",
        "status": short(summary.status),
    }


def _constant(identities: Sequence[dict[str, str]], kept: Sequence[str]) -> tuple[str, ...]:
    """`forward`, `causal`, `B = 1`."""
    words = {"tier": "tier {}", "B": "B = {}"}
    first = identities[0] if identities else {}
    told = [key for key in _ORDER if key in first and key not in (*kept, "run")]
    return tuple(words.get(key, "{}").format(one_line(first[key])) for key in told)


def _title(board: Board, column: Column) -> str:
    if not column.quantity.per:
        return column.quantity.title
    timed = [group.workload for group in board.groups if group.workload.is_timed]
    return f"{column.quantity.title} {' or '.join(dict.fromkeys(per(workload) for workload in timed))}".strip()


def _n(place: Place) -> str:
    return str(place.summary.replicates) if place.summary.ok else ""


def _remarks(board: Board, place: Place) -> str:
    """Why it failed; or the flags of its numbers, and whether they are above the roof."""
    summary = place.summary
    if not summary.ok:
        return shorten(summary.reason, _LONGEST_REMARK)
    share = roof_share(summary, board.runs[place.run].run)
    words = [*dict.fromkeys((*summary.flags, *summary.memory.flags)), *([share.warning] if share and share.warning else [])]
    return shorten(", ".join(words), _LONGEST_REMARK)
