"""A run as one frame: a row for each cell, every axis and every figure in SI units; what is missing is empty."""

from typing import TYPE_CHECKING

from attnbench.analyze.roofline import placed
from attnbench.report.findings import Findings, Row
from attnbench.report.text.table import rows_csv

if TYPE_CHECKING:
    import pandas as pd

COUNTERS = (
    *("input_bytes", "parameter_bytes", "output_bytes", "torch_allocated_peak", "torch_reserved_peak", "saved_for_backward"),
    *("nvml_process_peak", "nvml_process_base", "nvml_device_delta", "host_rss_peak", "torch_profiler_peak", "state_bytes"),
)
"""Always columns; counters that are not among them follow."""


def frame(findings: Findings) -> "pd.DataFrame":
    """Return all cells of a run, planned or recorded. Seconds, bytes and counts; the columns are the same for every run."""
    # takes longer to import than all of a report's tables to make
    import pandas as pd

    # of object dtype: a column of counts with a gap in it must not become one of floats
    return pd.DataFrame(rows(findings), dtype=object)


def replicate_frame(findings: Findings) -> "pd.DataFrame":
    """Return a row for each replicate, with the figures that every replicate has of its own; one that failed is one row."""
    import pandas as pd

    replicated = [quantity for quantity in findings.figures if quantity.is_replicated]
    found: list[Row] = []
    for summary in findings.summaries:
        values = {quantity.column: quantity.values(summary) for quantity in replicated}
        numbers = sorted({replicate for each in values.values() for replicate in each})
        about = findings.identity(summary) | {"status": summary.status, "reason": summary.reason}
        last = {"run": findings.run.id, "cell": summary.cell.key}
        found += [
            about
            | {"replicate": number}
            | {column: None if number is None else each.get(number) for column, each in values.items()}
            | last
            for number in numbers or (None,)
        ]
    return pd.DataFrame(found, dtype=object)


def csv(findings: Findings) -> str:
    """Return the same as CSV that no spreadsheet takes for formulas; counters are named by whoever recorded them."""
    return rows_csv(rows(findings), otherwise=())


def rows(findings: Findings) -> list[Row]:
    """Return a row for each cell, all with the same columns."""
    extra = {name for s in findings.summaries for name in s.memory.counters} - set(COUNTERS)
    found: list[Row] = []
    for summary in findings.summaries:
        at, main = placed(summary, findings.run), findings.counter
        figures: Row = {}
        for quantity in findings.figures:
            number = quantity.estimate(summary)
            figures[quantity.column] = number.value if number else None
            if quantity.is_replicated:
                low, high = number.ends if number else (None, None)
                figures |= {f"{quantity.column}_low": low, f"{quantity.column}_high": high}
                figures[f"{quantity.name}_interval"] = number.interval.kind.value if number else None
        counters: Row = {}
        for name in (*COUNTERS, *sorted(extra)):
            # in bytes of the whole batch
            counter = summary.memory.counters.get(name)
            counters[f"{name.removesuffix('_bytes')}_bytes_of_batch"] = counter.bytes if counter else None
            counters[f"{name}_source"] = counter.source if counter else None
            counters[f"{name}_reason"] = (counter.reason if counter else summary.memory.why_not(name)) or None
        row = {
            **findings.identity(summary),
            "status": summary.status,
            "reason": summary.reason,
            "n_replicates": summary.replicates,
            "n_samples": summary.samples,
            "n_outliers": summary.outliers,
            **figures,
            "roof_floor_s_per_call": at.floor_seconds if at else None,
            "warning": at.warning if at else None,
            "memory_counter": main.name if main else None,
            "memory_reason": main.why_not(summary) if main else summary.memory.reason,
            **counters,
            "energy_meter": summary.fact("energy_meter") or None,
            "energy_timed_share": summary.facts.get("energy_timed_share"),
            "energy_reason": summary.fact("energy_reason") or None,
            "selection_reason": summary.fact("selection_reason") or None,
            "parameters": summary.facts.get("parameters"),
            "flags": " ".join((*summary.flags, *summary.memory.flags)),
            **{name: summary.fact(name) for name in ("backend", "kernels", "clock", "stop", "threads")},
            "environment": summary.environment or findings.run.environment_digest,
            "run": findings.run.id,
            "cell": summary.cell.key,
            "rerun": f"attnbench rerun results/{findings.run.suite.name}/{findings.run.id} {summary.cell.key[:12]}",
        }
        found.append(row)
    return found
