"""A judgement as a table, worst first, on a terminal, and on a job's page; all of it as CSV and JSON, for programs."""

import json
from dataclasses import replace

from tabulate import tabulate

from attnbench.analyze.compare import Comparison, Exit, is_lost
from attnbench.analyze.quantities import TIME, Unit
from attnbench.analyze.sections import grouped
from attnbench.analyze.verdict import Ratio, Verdict
from attnbench.report.questions.comparison.judgement import Judgement, word
from attnbench.report.text.markdown import escape, one_table
from attnbench.report.text.names import one_line, shorten
from attnbench.report.text.numbers import written
from attnbench.report.text.statuses import short
from attnbench.report.text.table import WIDTH, Table, rows_csv, wrapped
from attnbench.schema.cell import Batch
from attnbench.schema.noun import Scalar
from attnbench.schema.units import bytes_, length, three_digits

MOST_BYTES = 900_000
"""Of a job's summary: a page above 1 MiB is dropped whole."""
_REASONS = 40
_ROWS, _BRIEF_REASONS = 30, 8
"""On a terminal."""
_NAMES = (40, 32, 26, 20, 14)
"""Letters of a method's name, as many as fit."""
_SHORT = {"forward": "fwd", "forward_backward": "f+b", "decode_total": "total"}


def comparison_table(judgement: Judgement) -> Table:
    """Return one row a cell, worst first; regressions and lost cells are bold."""
    quantity, timed = judgement.quantity, judgement.quantity.name == TIME
    rows, bold = [], set()
    for number, row in enumerate(judgement.sorted):
        cell, sides = row.pair.any.cell, []
        for side, figure in ((row.pair.old, judgement.terms.before), (row.pair.new, quantity)):
            found = figure.estimate(side)
            none = "no number" if judgement.terms.of_methods else "not planned"
            without = none if side is None else "n/a" if side.ok else short(side.status)
            sides.append(written(found.value, quantity.unit) if found else without)
        what = ", ".join([cell.workload.words, cell.problem.mask, *judgement.own(row)])
        texts = (
            judgement.called(row),
            what,
            length(cell.problem.N),
            *sides,
            ratio_text(row.ratio),
            word(row.verdict, quantity.unit),
        )
        rows.append((*texts, _memory(row)) if timed else texts)
        if row.verdict is Verdict.SLOWER or is_lost(row):
            bold.add((number, 6))
        if row.memory and row.memory.verdict is Verdict.SLOWER:
            bold.add((number, 7))
    old, new = (shorten(name, 30) for name in judgement.names)
    common = [f"Everywhere: {', '.join(judgement.everywhere)}."] if judgement.everywhere else []
    return Table(
        title=f"{judgement.title}{'' if timed else f', by {quantity.title}'}",
        headers=("method", "what", "N", f"old: {old}", f"new: {new}", "new/old", "verdict", *(["memory new/old"] * timed)),
        rows=tuple(rows),
        bold=frozenset(bold),
        notes=(f"{judgement.conclusion}.", *common, *reasons(judgement), *judgement.notes),
    )


def ratio_text(ratio: Ratio | None) -> str:
    """`1.08 [1.03, 1.13]`; empty where there is none."""
    if ratio is None:
        return ""
    interval = f" [{_factor(ratio.interval.low)}, {_factor(ratio.interval.high)}]" if ratio.interval else ""
    return f"{_factor(ratio.value)}{interval}"


def _factor(value: float) -> str:
    """Write thousandths from 1 to 10, else three digits: of one a thousand times as fast thousandths would leave nothing."""
    return f"{value:.3f}" if 1 <= value < 10 else three_digits(value)


def _memory(comparison: Comparison) -> str:
    memory = comparison.memory
    if memory is None or memory.verdict is Verdict.SAME:
        return "n/a" if memory is None else three_digits(memory.value)
    return f"{three_digits(memory.value)} {word(memory.verdict, Unit.BYTES)} ({bytes_(memory.old)} to {bytes_(memory.new)})"


def reasons(judgement: Judgement) -> list[str]:
    """Say why cells have no ratio: one line per reason, at most forty."""
    told = (
        (
            f"{row.verdict}: {one_line(row.reason)}",
            f"{judgement.called(row)} at {', '.join([f'N={length(row.pair.any.cell.problem.N)}', *judgement.own(row)])}",
        )
        for row in judgement.sorted
        if row.reason
    )
    lines = []
    for why, places in grouped(dict.fromkeys(told)).items():
        more = f" and {len(places) - 4} more" if len(places) > 4 else ""
        lines.append(f"{shorten(why, 200)}: {', '.join(places[:4])}{more}.")
    if len(lines) > _REASONS:
        lines[_REASONS:] = [f"{len(lines) - _REASONS} more reasons stand in the CSV."]
    return lines


def comparison_csv(judgement: Judgement) -> str:
    """Return one row a cell, SI units, in the judgement's own order; what is missing is empty and has a reason."""
    return rows_csv([record(judgement, comparison) for comparison in judgement.comparisons])


def record(judgement: Judgement, comparison: Comparison) -> dict[str, Scalar | None]:
    """Return one cell under the names of the columns, in SI units."""
    pair, ratio, memory, quantity = comparison.pair, comparison.ratio, comparison.memory, judgement.quantity
    cell, interval = pair.any.cell, ratio.interval if ratio else None
    sides = ((pair.old, judgement.terms.before), (pair.new, quantity))
    old, new = (found.value if (found := figure.estimate(side)) else None for side, figure in sides)
    batches = {side.B for side, _ in sides if side and (cell.batch is Batch.FIXED or "B" in side.facts)}
    return {
        "method": " / ".join(pair.labels),
        "workload": cell.workload.value,
        "N": cell.problem.N,
        # of a largest batch that each side found for itself there may be two, or none
        "B": batches.pop() if len(batches) == 1 else None,
        **{axis: getattr(cell.problem, axis) for axis in "HDM"},
        "dtype": cell.problem.dtype.value,
        "causal": cell.problem.causal,
        "device": cell.device,
        "key": cell.key,
        "metric": quantity.name,
        "unit": quantity.unit.value,
        "old_status": pair.old.status if pair.old else None,
        "new_status": pair.new.status if pair.new else None,
        "old": _six(old),
        "new": _six(new),
        "ratio": _six(ratio.value if ratio else None),
        "ratio_low": _six(interval.low if interval else None),
        "ratio_high": _six(interval.high if interval else None),
        "p": _six(ratio.p if ratio and quantity.is_replicated else None),
        "paired": ratio.paired if ratio else None,
        "replicates": ratio.replicates if ratio else None,
        "verdict": word(comparison.verdict, quantity.unit),
        "memory_old_bytes_per_sample": memory.old if memory else None,
        "memory_new_bytes_per_sample": memory.new if memory else None,
        "memory_verdict": word(memory.verdict, Unit.BYTES) if memory else None,
        "reason": comparison.reason,
    }


def _six(value: float | None) -> float | None:
    """Round to six digits: more are noise, and differ from machine to machine."""
    return None if value is None else float(f"{value:.6g}")


def judgement_json(judgement: Judgement, code: Exit) -> str:
    """Return the exit code and its name, the terms, and one object a cell; SI units, null for what is missing."""
    data = {
        "schema_version": 2,
        "exit_code": int(code),
        "result": code.name.lower(),
        "title": judgement.title,
        "conclusion": judgement.conclusion,
        "metric": judgement.quantity.name,
        "margin": judgement.terms.margin,
        "level": judgement.terms.level,
        "paired": judgement.terms.paired,
        "notes": judgement.notes,
        "cells": [record(judgement, comparison) for comparison in judgement.sorted],
    }
    return json.dumps(data, allow_nan=False, indent=1, ensure_ascii=False) + "\n"


def job_summary(judgement: Judgement, headline: str) -> str:
    """Return the headline, the table as far as it fits, and how many rows are left out."""
    table = comparison_table(judgement)
    rows = table.rows
    while True:
        left_out = len(table.rows) - len(rows)
        more = f"\n{left_out} more rows, none worse than these, are left out.\n" if left_out else ""
        text = f"# {escape(headline)}\n\n{one_table(replace(table, rows=rows))}{more}"
        if len(text.encode()) <= MOST_BYTES or not rows:
            return text
        rows = rows[: len(rows) * MOST_BYTES // (len(text.encode()) + 1)]


def console(judgement: Judgement) -> str:
    """Return the conclusion, the rows that are not SAME, and the notes."""
    loud = [c for c in judgement.sorted if c.verdict not in {Verdict.SAME, Verdict.ABSENT} or _brief_memory(c)]
    # an answer of nothing but SAME is shown in full, as far as it fits
    rows = loud or [c for c in judgement.sorted if c.verdict is Verdict.SAME] or judgement.sorted
    by = "" if judgement.quantity.name == TIME else f", by {judgement.quantity.title}"
    lines = [wrapped(f"{judgement.title}{by}"), "", _grid(judgement, rows[:_ROWS])]
    if len(rows) > _ROWS:
        lines.append(f"{len(rows) - _ROWS} more: see --out")
    notes = (f"{judgement.conclusion}.", *reasons(judgement)[:_BRIEF_REASONS], *judgement.notes)
    return "\n".join([*lines, "", *map(wrapped, notes)])


def _grid(judgement: Judgement, rows: list[Comparison]) -> str:
    """Return a row a comparison, with as much of the names as fits; the title says what is compared with what."""
    headers, align = ["method", "what", "N", "new/old", "verdict"], ("left", "left", "right", "left", "left")
    grid = "no cell of one side has numbers on the other"
    for width in _NAMES if rows else ():
        cells = []
        for row in rows:
            cell = row.pair.any.cell
            mask = "causal" if cell.problem.causal else "full"
            what = ", ".join([f"{_SHORT.get(cell.workload.value, cell.workload.value)} {mask}", *judgement.own(row)])
            verdict = f"{word(row.verdict, judgement.quantity.unit)} {_brief_memory(row)}".strip()
            cells.append([shorten(cell.label, width), what, length(cell.problem.N), ratio_text(row.ratio), verdict])
        grid = tabulate(cells, headers, tablefmt="simple", colalign=align, disable_numparse=True)
        if max(map(len, grid.split("\n"))) <= WIDTH:
            break
    return grid


def _brief_memory(comparison: Comparison) -> str:
    memory = comparison.memory
    return f"mem {three_digits(memory.value)}x" if memory and memory.verdict is not Verdict.SAME else ""
