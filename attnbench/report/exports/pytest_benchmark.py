"""pytest-benchmark's JSON: a group for each block, a benchmark for each method in it, a round for each replicate."""

from collections.abc import Sequence
from typing import Any

from attnbench.report.exports.cell_names import block_name, label_name
from attnbench.report.exports.entries import Entry, notes, timed, without_numbers
from attnbench.report.exports.exchange import Export, Source
from attnbench.report.exports.round_stats import round_stats
from attnbench.report.exports.strict_json import encode
from attnbench.report.findings import Findings
from attnbench.schema.run import RunInfo

FILE = "pytest-benchmark.json"
_VERSION = "5.1.0"
"""Of pytest-benchmark, whose fields these are."""


def make(sources: Sequence[Source]) -> Export:
    """One run. Cells without numbers are in `attnbench.without_numbers`, which pytest-benchmark does not read."""
    (source,) = sources
    findings, run = source.findings, source.findings.run
    data = {
        "machine_info": _machine(run),
        "commit_info": _commit(run),
        "benchmarks": [_benchmark(findings, entry) for entry in timed(findings)],
        "datetime": run.started,
        "version": _VERSION,
        "attnbench": {"run": run.id, "suite": run.suite.name, "without_numbers": without_numbers(findings)},
    }
    return Export({FILE: encode(data)}, notes(findings))


def _machine(run: RunInfo) -> dict[str, object]:
    facts = run.environment
    system, _, release = str(facts.get("system") or "").partition(" ")
    return {
        "node": "",
        "processor": facts.get("processor"),
        "machine": "",
        "python_implementation": "CPython",
        "python_version": facts.get("python"),
        "release": release,
        "system": system,
        "cpu": {"brand_raw": facts.get("processor"), "count": facts.get("cores")},
        "device": run.surroundings.device,
        "facts": facts | run.surroundings.facts,
    }


def _commit(run: RunInfo) -> dict[str, object]:
    return {
        "id": run.git.get("commit") or "unversioned",
        "time": None,
        "author_time": None,
        "dirty": bool(run.git.get("dirty")),
        "project": run.suite.name,
        "branch": "(unknown)",
    }


def _benchmark(findings: Findings, entry: Entry) -> dict[str, Any]:
    summary = entry.summary
    return {
        "group": block_name(summary.cell),
        "name": label_name(summary.cell),
        "fullname": entry.name,
        "params": _params(entry),
        "param": f"N={summary.cell.problem.N}",
        "extra_info": _extra(findings, entry),
        "options": {
            "disable_gc": True,
            "timer": summary.fact("clock"),
            "min_rounds": findings.run.suite.replicates,
            "max_time": findings.run.suite.budget.seconds,
            "warmup": True,
        },
        "stats": round_stats(entry.medians),
    }


def _params(entry: Entry) -> dict[str, object]:
    """What `--group-by=param:N` may name."""
    cell = entry.summary.cell
    return {**cell.params, **cell.problem.model_dump(mode="json"), "method": cell.method, "workload": cell.workload.value}


def _extra(findings: Findings, entry: Entry) -> dict[str, object]:
    """Seconds are those of a sample of the batch, as in `stats`, where nothing else is said."""
    summary, interval = entry.summary, entry.interval
    return {
        "label": summary.cell.label,
        "tier": findings.tier(summary),
        "paper": findings.paper(summary),
        "status": summary.status,
        "batch": summary.B,
        "seconds_per_call": summary.median,
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
        "interval_kind": interval.kind.value if interval else None,
        "samples": summary.samples,
        "outliers": summary.outliers,
        "flags": [*summary.flags, *summary.memory.flags],
        "memory_counter": findings.counter.name if findings.counter else None,
        "memory_bytes": entry.bytes,
        "memory_of_the_batch": {name: counter.model_dump() for name, counter in summary.memory.counters.items()},
        "cell": summary.cell.key,
    }
