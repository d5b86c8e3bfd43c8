"""pytest-benchmark's JSON: a group for each block, a benchmark for each method in it, a round for each replicate."""

import statistics
from collections.abc import Sequence

import numpy as np

from attnbench.report.exports.cell_names import block_name, label_name
from attnbench.report.exports.exchange import Entry, Export, Source, encode, notes, of_cell, one_machine, timed, without_numbers
from attnbench.report.findings import Findings

FILE = "pytest-benchmark.json"


def make(sources: Sequence[Source]) -> Export:
    """Write one run. Cells without numbers are in `attnbench.without_numbers`, which pytest-benchmark does not read."""
    (source,) = sources
    findings, run = source.findings, source.findings.run
    facts = run.environment
    system, _, release = str(facts.get("system") or "").partition(" ")
    data = {
        "machine_info": {
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
        },
        "commit_info": {
            "id": run.git.get("commit") or "unversioned",
            "time": None,
            "author_time": None,
            "dirty": bool(run.git.get("dirty")),
            "project": run.suite.name,
            "branch": "(unknown)",
        },
        "benchmarks": [_benchmark(findings, entry) for entry in timed(findings)],
        "datetime": run.started,
        # the fields are those of this version of pytest-benchmark
        "version": "5.1.0",
        "attnbench": {"run": run.id, "suite": run.suite.name, "without_numbers": without_numbers(findings)},
    }
    return Export({FILE: encode(data)}, (*notes(findings, times_alone=True), *one_machine(run)))


def _benchmark(findings: Findings, entry: Entry) -> dict[str, object]:
    """Write one cell; its time as statistics, and all figures as extra information."""
    summary, cell = entry.summary, entry.summary.cell
    kind = {"method": cell.method, "workload": cell.workload.value}
    figures = {
        each.figure: {
            "value": each.value,
            "unit": each.quantity.unit.value,
            "more_is_better": each.quantity.more_is_better,
            **({"low": each.interval.low, "high": each.interval.high, "range": each.interval.kind} if each.interval else {}),
        }
        for each in of_cell(findings, summary)
    }
    return {
        "group": block_name(cell),
        "name": label_name(cell),
        "fullname": entry.name,
        # what `--group-by=param:N` may name
        "params": {**cell.params, **cell.problem.model_dump(mode="json"), **kind},
        "param": f"N={cell.problem.N}",
        "extra_info": {
            "label": cell.label,
            "tier": findings.tier(summary),
            "paper": findings.paper(summary),
            "status": summary.status,
            "batch": summary.B,
            "seconds_per_call": summary.median,
            "samples": summary.samples,
            "outliers": summary.outliers,
            "flags": [*summary.flags, *summary.memory.flags],
            "figures": figures,
            "memory_of_the_batch": {name: counter.model_dump() for name, counter in summary.memory.counters.items()},
            "cell": cell.key,
        },
        "options": {
            "disable_gc": True,
            "timer": summary.fact("clock"),
            "min_rounds": findings.run.suite.replicates,
            "max_time": findings.run.suite.budget.seconds,
            "warmup": True,
        },
        "stats": round_stats(entry.replicates),
    }


def round_stats(values: Sequence[float]) -> dict[str, object]:
    """Return the statistics that pytest-benchmark stores, by its definitions, of positive numbers, at least one."""
    data = sorted(values)
    mean, stddev = statistics.mean(data), statistics.stdev(data) if len(data) > 1 else 0.0
    # its quartiles are those of Hazen (1914) for every number of rounds
    q1, q3 = np.quantile(data, (0.25, 0.75), method="hazen").tolist()
    low, high = q1 - 1.5 * (q3 - q1), q3 + 1.5 * (q3 - q1)
    beyond_stddev = sum(abs(value - mean) > stddev for value in data)
    beyond_fences = sum(not low <= value <= high for value in data)
    return {
        "min": data[0],
        "max": data[-1],
        "mean": mean,
        "stddev": stddev,
        "rounds": len(data),
        "median": statistics.median(data),
        "iqr": q3 - q1,
        "q1": q1,
        "q3": q3,
        "iqr_outliers": beyond_fences,
        "stddev_outliers": beyond_stddev,
        "outliers": f"{beyond_stddev};{beyond_fences}",
        "ld15iqr": min(value for value in data if value >= low),
        "hd15iqr": max(value for value in data if value <= high),
        "ops": len(data) / sum(data),
        "total": sum(data),
        "data": list(values),
        "iterations": 1,
    }
