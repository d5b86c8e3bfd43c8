"""The largest lengths, or batches, that fit: one table a section, and CSV, one row a search."""

import csv
import io
from collections.abc import Sequence

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.limits import Limit
from attnbench.analyze.main_counter import MainCounter, main_counter
from attnbench.analyze.sections import Section, sections
from attnbench.report.conditions import machine
from attnbench.report.findings import Findings
from attnbench.report.text.names import harmless, one_line, shorten
from attnbench.report.text.numbers import percent
from attnbench.report.text.statuses import reasons, short
from attnbench.report.text.table import Table
from attnbench.schema.cell import Batch
from attnbench.schema.errand import FIT_SHARE
from attnbench.schema.noun import Scalar
from attnbench.schema.outcome import Status
from attnbench.schema.units import bytes_, length, seconds

_WHY = 160
_CAUSES = {
    Status.OOM_HOST: "memory",
    Status.OOM_DEVICE: "memory",
    Status.BUDGET: "time",
    Status.TIMEOUT: "time",
}
Row = dict[str, Scalar | None]


def is_of_batches(found: Sequence[Limit]) -> bool:
    """Whether B was searched for, and not N."""
    return any(limit.summary.cell.batch is Batch.LARGEST for limit in found)


def limits_tables(findings: Findings, found: Sequence[Limit]) -> list[Table]:
    """One a section, in the order of the run."""
    summaries = [limit.summary for limit in found]
    by_cell = {limit.summary.cell.key: limit for limit in found}
    counter = main_counter(summaries)
    return [
        _table(findings, section, [by_cell[summary.cell.key] for summary in section.summaries], counter)
        for section in sections(summaries, findings.run.suite.axes)
    ]


def _table(findings: Findings, section: Section, found: Sequence[Limit], counter: MainCounter | None) -> Table:
    what = "B" if is_of_batches(found) else "N"
    given = "N" if what == "B" else "B"
    return Table(
        title=f"Largest {what} that fits: {section.title.removesuffix(', largest B that fits')}",
        headers=("method", "tier", given, f"largest {what}", "memory of a call", "a call takes", "ended by"),
        rows=tuple(_row(findings, limit, counter) for limit in found),
        notes=(*about(findings, what), *_memory(counter, found), *_why(findings, found), machine(findings)),
    )


def _row(findings: Findings, limit: Limit, counter: MainCounter | None) -> tuple[str, ...]:
    summary = limit.summary
    given = length(summary.cell.problem.N) if summary.cell.batch is Batch.LARGEST else str(summary.cell.problem.B)
    peak = _peak(summary, counter)
    return (
        findings.names[summary.cell.label],
        findings.tier(summary),
        given,
        value_text(limit),
        ("n/a" if peak is None else bytes_(peak)) if limit.value else "",
        "" if limit.seconds is None else seconds(limit.seconds),
        ended(limit),
    )


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
    return f"{_CAUSES[status]} ({words})" if status in _CAUSES else words


def about(findings: Findings, what: str) -> tuple[str, ...]:
    """What fits, and how well it is known."""
    suite, device = findings.run.suite, findings.run.surroundings
    share = f"{percent(FIT_SHARE)} of the memory allowed"
    memory = f"{share} ({bytes_(round(suite.budget.memory * device.memory_bytes))})" if device.device == "cpu" else share
    return (
        f"Largest {what} to one part in sixteen; each trial is a process of its own. It fits if two calls end within "
        f"{memory}, and the second takes at most {suite.budget.seconds / 2:g} s.",
    )


def _memory(counter: MainCounter | None, found: Sequence[Limit]) -> list[str]:
    fits = [limit.summary for limit in found if limit.value]
    if counter is None:
        missing = dict.fromkeys(one_line(s.memory.reason) for s in fits)
        return [f"Memory n/a: {shorten(reason, _WHY)}." for reason in missing if reason]
    lines = [f"Memory of a call: {counter.name} ({one_line(counter.source)}), of the whole batch, beyond what lived before."]
    missing = dict.fromkeys(counter.why_not(s) for s in fits if counter.why_not(s))
    return [*lines, *(f"Memory n/a: {shorten(reason, _WHY)}." for reason in missing)]


def _why(findings: Findings, found: Sequence[Limit]) -> list[str]:
    """Why methods do not run at all; and of the others what ended them, where it was neither memory nor time."""
    lines = reasons([limit.summary for limit in found if not limit.value])
    for limit in found:
        if limit.value and limit.bound is not None and limit.bound.status not in _CAUSES:
            name = findings.names[limit.summary.cell.label]
            lines.append(f"{name}, {ended(limit)}: {shorten(limit.bound.reason, _WHY)}")
    return list(dict.fromkeys(lines))


def _peak(summary: CellSummary, counter: MainCounter | None) -> int | None:
    """Bytes of a call of the whole batch."""
    read = counter is not None and counter.per_sample(summary) is not None
    return summary.memory.bytes(counter.name) if read and counter is not None else None


def limits_csv(findings: Findings, found: Sequence[Limit]) -> str:
    """Numbers in SI units; what is missing is empty and has a reason."""
    counter = main_counter([limit.summary for limit in found])
    rows = [_record(findings, limit, counter) for limit in found]
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]) if rows else ["method"], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: harmless(value) for name, value in row.items()} for row in rows)
    return out.getvalue()


def _record(findings: Findings, limit: Limit, counter: MainCounter | None) -> Row:
    summary, bound = limit.summary, limit.bound
    cell, batches = summary.cell, summary.cell.batch is Batch.LARGEST
    p = cell.problem
    return {
        "method": cell.method,
        "params": " ".join(f"{name}={value}" for name, value in sorted(cell.params.items())),
        "tier": findings.tier(summary),
        "workload": cell.workload.value,
        "causal": p.causal,
        "dtype": p.dtype.value,
        **{name: getattr(p, name) for name in ("H", "D", "M", "kv_heads")},
        "padding": p.padding,
        "device": cell.device,
        "searched": "B" if batches else "N",
        "N": p.N if batches or limit.value else None,
        "B": (limit.value or None) if batches else p.B,
        "status": summary.status,
        "reason": summary.reason,
        "finished": limit.finished,
        "ended_by": bound.status.value if bound else "limit" if limit.finished else "unfinished",
        "ended_at": limit.bound_at,
        "ended_reason": bound.reason if bound else "",
        "call_seconds": limit.seconds,
        "memory_counter": counter.name if counter else None,
        "memory_bytes": _peak(summary, counter),
        "cell": cell.key,
    }
