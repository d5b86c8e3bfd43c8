"""A judgement as a table, worst first; and as CSV, all of it."""

import csv
import io
from collections.abc import Sequence

from attnbench.analyze.compare import Comparison, is_lost
from attnbench.analyze.ratio import Ratio
from attnbench.analyze.verdict import Verdict
from attnbench.report.questions.comparison.judgement import Judgement, conditions
from attnbench.report.text.names import harmless, one_line, shorten
from attnbench.report.text.statuses import short
from attnbench.report.text.table import Table
from attnbench.schema.noun import Scalar
from attnbench.schema.units import bytes_, length, seconds, three_digits

_REASONS = 40
_NAME = 60
_MEMORY = {Verdict.SLOWER: " MORE", Verdict.FASTER: " LESS"}


def comparison_table(judgement: Judgement) -> Table:
    """One row a cell; regressions and lost cells are bold."""
    rows, everywhere = judgement.sorted, shared(judgement.comparisons)
    bold = {(i, 6) for i, row in enumerate(rows) if row.verdict is Verdict.SLOWER or is_lost(row)}
    bold |= {(i, 7) for i, row in enumerate(rows) if row.memory and row.memory.verdict is Verdict.SLOWER}
    old, new = (shorten(name, 30) for name in judgement.names)
    return Table(
        title=judgement.title,
        headers=("method", "what", "N", f"old: {old}", f"new: {new}", "new/old", "verdict", "memory new/old"),
        rows=tuple(_row(comparison, everywhere) for comparison in rows),
        bold=frozenset(bold),
        notes=(f"{judgement.conclusion}.", *_everywhere(everywhere), *reasons(judgement), *judgement.notes),
    )


def method(comparison: Comparison) -> str:
    """The label; of two methods, both."""
    old, new = comparison.pair.old, comparison.pair.new
    labels = dict.fromkeys(side.cell.label for side in (new, old) if side)
    return shorten(" / ".join(labels), _NAME)


def shared(comparisons: Sequence[Comparison]) -> tuple[str, ...]:
    """What holds of all cells: said once. The workload and the mask stay with each, so that no row is without a word."""
    each = [conditions(comparison.pair.any.cell) for comparison in comparisons]
    return tuple(word for word in (each[0] if each else ()) if all(word in words for words in each))


def _everywhere(words: Sequence[str]) -> list[str]:
    return [f"Everywhere: {', '.join(words)}."] if words else []


def _row(comparison: Comparison, everywhere: Sequence[str]) -> tuple[str, ...]:
    cell = comparison.pair.any.cell
    own = [word for word in conditions(cell) if word not in everywhere]
    return (
        method(comparison),
        ", ".join([cell.workload.value, "causal" if cell.problem.causal else "non-causal", *own]),
        length(cell.problem.N),
        *(_time(comparison, side) for side in ("old", "new")),
        ratio_text(comparison.ratio),
        comparison.verdict.value,
        _memory(comparison),
    )


def _time(comparison: Comparison, side: str) -> str:
    summary = getattr(comparison.pair, side)
    if summary is None:
        return "not planned"
    return short(summary.status) if summary.time is None else seconds(summary.time.value)


def ratio_text(ratio: Ratio | None) -> str:
    """`1.08 [1.03, 1.13]`; empty where there is none."""
    if ratio is None:
        return ""
    interval = f" [{_factor(ratio.interval.low)}, {_factor(ratio.interval.high)}]" if ratio.interval else ""
    return f"{_factor(ratio.value)}{interval}"


def _factor(value: float) -> str:
    """Thousandths, as far as they mean anything."""
    return f"{value:.3f}" if value < 10 else three_digits(value)


def _memory(comparison: Comparison) -> str:
    memory = comparison.memory
    if memory is None:
        return "n/a"
    change = f" ({bytes_(memory.old)} to {bytes_(memory.new)})" if memory.verdict is not Verdict.SAME else ""
    return f"{three_digits(memory.value)}{_MEMORY.get(memory.verdict, '')}{change}"


def reasons(judgement: Judgement) -> list[str]:
    """Why cells have no ratio: one line per reason, at most forty."""
    found: dict[str, list[str]] = {}
    for row in judgement.sorted:
        if row.reason:
            found.setdefault(f"{row.verdict}: {one_line(row.reason)}", []).append(
                f"{method(row)} at N={length(row.pair.any.cell.problem.N)}"
            )
    lines = [f"{shorten(why, 200)}: {_several(cells)}." for why, cells in found.items()]
    more = [f"{len(lines) - _REASONS} more reasons stand in the CSV."] if len(lines) > _REASONS else []
    return lines[:_REASONS] + more


def _several(cells: list[str]) -> str:
    names = list(dict.fromkeys(cells))
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def comparison_csv(judgement: Judgement) -> str:
    """One row a cell, SI units, in the judgement's own order; what is missing is empty and has a reason."""
    rows = [record(comparison) for comparison in judgement.comparisons]
    out = io.StringIO()
    writer = csv.DictWriter(out, list(record(judgement.comparisons[0])) if rows else ["method"], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: harmless(value) for name, value in row.items()} for row in rows)
    return out.getvalue()


def record(comparison: Comparison) -> dict[str, Scalar | None]:
    """One cell under the names of the columns."""
    pair, ratio, memory = comparison.pair, comparison.ratio, comparison.memory
    cell, interval = pair.any.cell, ratio.interval if ratio else None
    return {
        "method": method(comparison),
        "workload": cell.workload.value,
        "N": cell.problem.N,
        "B": cell.problem.B,
        "H": cell.problem.H,
        "D": cell.problem.D,
        "M": cell.problem.M,
        "dtype": cell.problem.dtype.value,
        "causal": cell.problem.causal,
        "device": cell.device,
        "key": cell.key,
        "old_status": pair.old.status if pair.old else None,
        "new_status": pair.new.status if pair.new else None,
        "old_seconds_per_sample": _per_sample(comparison, "old"),
        "new_seconds_per_sample": _per_sample(comparison, "new"),
        "ratio": _six(ratio.value) if ratio else None,
        "ratio_low": _six(interval.low) if interval else None,
        "ratio_high": _six(interval.high) if interval else None,
        "p": _six(ratio.p) if ratio else None,
        "paired": ratio.paired if ratio else None,
        "replicates": ratio.replicates if ratio else None,
        "verdict": comparison.verdict.value,
        "memory_old_bytes_per_sample": memory.old if memory else None,
        "memory_new_bytes_per_sample": memory.new if memory else None,
        "memory_verdict": {"SLOWER": "MORE", "FASTER": "LESS"}.get(memory.verdict, memory.verdict.value) if memory else None,
        "reason": comparison.reason,
    }


def _per_sample(comparison: Comparison, side: str) -> float | None:
    summary = getattr(comparison.pair, side)
    return _six(summary.time.value) if summary is not None and summary.time is not None else None


def _six(value: float) -> float:
    """Six digits: more are noise, and differ from machine to machine."""
    return float(f"{value:.6g}")
