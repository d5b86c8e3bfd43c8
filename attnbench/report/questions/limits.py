"""The largest lengths, or batches, that fit: one table a section, and CSV, one row a search."""

from collections.abc import Sequence

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.limits import Limit
from attnbench.report.conditions import machine
from attnbench.report.findings import Findings
from attnbench.report.text.names import one_line, shorten
from attnbench.report.text.numbers import percent
from attnbench.report.text.statuses import SCARCE, reasons, short
from attnbench.report.text.table import Table, rows_csv
from attnbench.schema.cell import Batch
from attnbench.schema.errand import FIT_SHARE
from attnbench.schema.run import RunInfo
from attnbench.schema.units import bytes_, length, seconds

_WHY = 160


def limits_tables(run: RunInfo, found: Sequence[Limit]) -> list[Table]:
    """Return one table a section, in the order of the run."""
    by_cell, tables = {limit.summary.cell.key: limit for limit in found}, []
    findings = Findings.over(run, [limit.summary for limit in found])
    for section in findings.sections:
        members, rows = [by_cell[summary.cell.key] for summary in section.summaries], []
        batches = section.summaries[0].cell.batch is Batch.LARGEST
        what, given = ("B", "N") if batches else ("N", "B")
        for limit in members:
            summary, problem = limit.summary, limit.summary.cell.problem
            peak = _peak(findings, summary)
            rows.append(
                (
                    findings.names[summary.cell.label],
                    findings.tier(summary),
                    length(problem.N) if batches else str(problem.B),
                    value_text(limit),
                    ("n/a" if peak is None else bytes_(peak)) if limit.value else "",
                    "" if limit.seconds is None else seconds(limit.seconds),
                    ended(limit),
                )
            )
        title = f"Largest {what} that fits: {section.title.removesuffix(', largest B that fits')}"
        headers = ("method", "tier", given, f"largest {what}", "memory of a call", "a call takes", "ended by")
        tables.append(Table(title, headers, tuple(rows), notes=tuple(_notes(findings, members, what))))
    return tables


def value_text(limit: Limit) -> str:
    """`24,576`, or that it does not run, or how far an unfinished search came."""
    if not limit.value:
        return "not searched" if limit.bound is None else "does not run"
    return f"{limit.value:,}" if limit.finished else f"at least {limit.value:,}"


def ended(limit: Limit) -> str:
    """`memory (OOM at 25,600)`, `time (timeout at 8,192)`, the status of another failure, or the search's own limit."""
    if limit.bound is None:
        return "limit of the search" if limit.finished else "unfinished"
    status = limit.bound.status
    words = short(status.value) if limit.bound_at is None else f"{short(status.value)} at {limit.bound_at:,}"
    return f"{SCARCE[status]} ({words})" if status in SCARCE else words


def _notes(findings: Findings, found: Sequence[Limit], what: str) -> list[str]:
    """Say what fits, how well it is known, and what ended a search where it was neither memory nor time."""
    suite, device, counter = findings.run.suite, findings.run.surroundings, findings.counter
    memory = f"{percent(FIT_SHARE)} of the memory allowed"
    if device.device == "cpu":
        memory += f" ({bytes_(round(suite.budget.memory * device.memory_bytes))})"
    lines = [
        f"Largest {what} to one part in sixteen; each trial is a process of its own. It fits if two calls end within "
        f"{memory}, and the second takes at most {suite.budget.seconds / 2:g} s."
    ]
    fits = [limit.summary for limit in found if limit.value]
    if counter is not None:
        source = one_line(counter.source)
        lines.append(f"Memory of a call: {counter.name} ({source}), of the whole batch, beyond what lived before.")
    missing = dict.fromkeys(counter.why_not(s) if counter else one_line(s.memory.reason) for s in fits)
    lines += [f"Memory n/a: {shorten(reason, _WHY)}." for reason in missing if reason]
    lines += reasons([limit.summary for limit in found if not limit.value], findings.names)
    for limit in found:
        if limit.value and limit.bound is not None and limit.bound.status not in SCARCE:
            name = findings.names[limit.summary.cell.label]
            lines.append(f"{name}, {ended(limit)}: {shorten(limit.bound.reason, _WHY)}")
    return [*dict.fromkeys(lines), machine(findings.run)]


def _peak(findings: Findings, summary: CellSummary) -> int | None:
    """Return the bytes of a call of the whole batch."""
    counter = findings.counter
    return summary.memory.bytes(counter.name) if counter and counter.per_sample(summary) is not None else None


def limits_csv(run: RunInfo, found: Sequence[Limit]) -> str:
    """Return numbers in SI units; what is missing is empty and has a reason."""
    findings, rows = Findings.over(run, [limit.summary for limit in found]), []
    for limit in found:
        summary, bound = limit.summary, limit.bound
        batches, p = summary.cell.batch is Batch.LARGEST, summary.cell.problem
        row = {
            **findings.identity(summary),
            "N": p.N if batches or limit.value else None,
            "B": (limit.value or None) if batches else p.B,
            "searched": "B" if batches else "N",
            "status": summary.status,
            "reason": summary.reason,
            "finished": limit.finished,
            "ended_by": bound.status.value if bound else "limit" if limit.finished else "unfinished",
            "ended_at": limit.bound_at,
            "ended_reason": bound.reason if bound else "",
            "call_seconds": limit.seconds,
            "memory_counter": findings.counter.name if findings.counter else None,
            "memory_bytes": _peak(findings, summary),
            "cell": summary.cell.key,
        }
        rows.append(row)
    return rows_csv(rows)
