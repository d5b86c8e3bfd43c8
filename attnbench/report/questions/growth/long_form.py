"""The long form: one row per cell, every axis and every number, in SI units; what is missing is empty and has a reason."""

import io
from collections.abc import Mapping
from csv import writer
from typing import TYPE_CHECKING, Any

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.fidelity import score, share_of_dense
from attnbench.analyze.learnt import learnt
from attnbench.analyze.roofline import roof_share
from attnbench.analyze.statistics import Estimate
from attnbench.report.findings import Findings
from attnbench.report.text.names import harmless
from attnbench.schema.cell import Batch
from attnbench.schema.outcome import FIDELITY_SCORES, LEARNT_SCORES, LOSS, NUMERICS_SCORES
from attnbench.schema.training import Training

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]

COUNTERS = (
    *("input_bytes", "parameter_bytes", "output_bytes", "torch_allocated_peak", "torch_reserved_peak", "saved_for_backward"),
    *("nvml_process_peak", "nvml_process_base", "nvml_device_delta", "host_rss_peak", "torch_profiler_peak", "state_bytes"),
)
"""Always columns; counters that are not among them follow."""


def frame(findings: Findings) -> "pd.DataFrame":
    """All cells of a run, planned or recorded. Seconds, bytes and counts; the columns are the same for every run."""
    # takes longer to import than all of a report's tables to make
    import pandas as pd

    rows = _rows(findings)
    # of object dtype: a column of counts with a gap in it must not become one of floats
    return pd.DataFrame(rows, columns=list(rows[0]) if rows else None, dtype=object)


def csv(findings: Findings) -> str:
    """The same as CSV that no spreadsheet takes for formulas; counters are named by whoever recorded them."""
    rows, out = _rows(findings), io.StringIO()
    lines = writer(out, lineterminator="\n")
    lines.writerow([harmless(name) for name in (rows[0] if rows else ())])
    lines.writerows([harmless(value) for value in row.values()] for row in rows)
    return out.getvalue()


def _rows(findings: Findings) -> list[Row]:
    extra = {name for s in findings.summaries for name in s.memory.counters} - set(COUNTERS)
    names = (*COUNTERS, *sorted(extra))
    return [_row(findings, summary, names) for summary in findings.summaries]


def _row(findings: Findings, summary: CellSummary, counters: tuple[str, ...]) -> Row:
    return {
        **_identity(findings, summary),
        **_outcome(summary),
        **_time(summary),
        **_scores(findings, summary),
        **_learnt(summary),
        **_roof(findings, summary),
        **_main_memory(findings, summary),
        **_memory(summary, counters),
        **_provenance(findings, summary),
    }


def _identity(findings: Findings, summary: CellSummary) -> Row:
    cell, p = summary.cell, summary.cell.problem
    return {
        "method": cell.method,
        "params": _words(cell.params),
        "tier": findings.tier(summary),
        "paper": findings.paper(summary),
        "workload": cell.workload.value,
        "N": p.N,
        "B": None if cell.batch is Batch.LARGEST and "B" not in summary.facts else summary.B,
        "batch": cell.batch.value,
        "batch_bound": summary.bound or None,
        **{name: getattr(p, name) for name in ("H", "D", "M", "kv_heads")},
        "dtype": p.dtype.value,
        "causal": p.causal,
        "padding": p.padding,
        "device": cell.device,
        "inputs": cell.inputs.value,
        "recording": cell.recording or None,
        "scale": cell.scale,
        "allocator": cell.allocator.value,
        "matmul_precision": cell.matmul_precision.value,
        "clock_mode": cell.clock.value,
        **_model(cell.training),
    }


def _model(training: Training | None) -> Row:
    """The model around the attention and what it learns; of a cell without one, empty."""
    return dict.fromkeys(Training.model_fields) | (training.model_dump(mode="json") if training else {})


def _outcome(summary: CellSummary) -> Row:
    return {
        "status": summary.status,
        "reason": summary.reason,
        "n_replicates": summary.replicates,
        "n_samples": summary.samples,
        "n_outliers": summary.outliers,
    }


def _time(summary: CellSummary) -> Row:
    """Empty unless the cell is ok: half a failure is no number to rank."""
    time = summary.time
    return {
        **_with_ends("time_median_s_per_call", "time_{}_s_per_call", time and time.times(summary.B)),
        **_with_ends("time_median_s_per_sample", "time_{}_s_per_sample", time),
        "interval_kind": time.interval.kind.value if time else None,
        "throughput_tokens_per_s": summary.tokens / summary.B / time.value if time else None,
    }


def _with_ends(name: str, end: str, found: Estimate | None) -> Row:
    """A number, and the ends of its interval."""
    low, high = found.ends if found else (None, None)
    return {name: found.value if found else None, end.format("low"): low, end.format("high"): high}


def _scores(findings: Findings, summary: CellSummary) -> Row:
    """Means over the replicates; of other workloads empty, but for the share of FLOPs."""
    row: Row = {"flops_of_dense": share_of_dense(summary, findings.run)}
    for metric in (*FIDELITY_SCORES, *NUMERICS_SCORES):
        row |= _with_ends(metric, f"{metric}_{{}}", score(summary, metric))
    return row


def _learnt(summary: CellSummary) -> Row:
    """Means over the seeds, in nats, as a share, in bits; of other workloads empty."""
    row: Row = {"parameters": summary.facts.get("parameters")}
    for metric in LEARNT_SCORES:
        row |= _with_ends(metric, f"{metric}_{{}}", learnt(summary, metric))
    loss = learnt(summary, LOSS)
    return {**row, "loss_interval_kind": loss.interval.kind.value if loss else None}


def _roof(findings: Findings, summary: CellSummary) -> Row:
    share = roof_share(summary, findings.run)
    return {
        "roof_floor_s_per_call": share.floor_seconds if share else None,
        "roof_fraction": share.fraction if share else None,
        "warning": share.warning if share else None,
    }


def _main_memory(findings: Findings, summary: CellSummary) -> Row:
    counter = findings.counter
    return {
        "memory_counter": counter.name if counter else None,
        "memory_bytes_per_sample": counter.per_sample(summary) if counter else None,
        "memory_reason": counter.why_not(summary) if counter else summary.memory.reason,
    }


def _memory(summary: CellSummary, counters: tuple[str, ...]) -> Row:
    """Every counter in bytes of the whole batch, with its source and, where it was not read, the reason."""
    row: Row = {}
    for name in counters:
        counter = summary.memory.counters.get(name)
        stem = name if name.endswith("_bytes") else f"{name}_bytes"
        row |= {
            stem: counter.bytes if counter else None,
            f"{name}_source": counter.source if counter else None,
            f"{name}_reason": (counter.reason if counter else summary.memory.why_not(name)) or None,
        }
    return row


def _provenance(findings: Findings, summary: CellSummary) -> Row:
    return {
        "flags": " ".join((*summary.flags, *summary.memory.flags)),
        "backend": summary.fact("backend"),
        "clock": summary.fact("clock"),
        "stop": summary.fact("stop"),
        "threads": summary.fact("threads"),
        "environment": " ".join(summary.environments) or findings.run.environment_digest,
        "run": findings.run.id,
        "cell": summary.cell.key,
    }


def _words(params: Mapping[str, object]) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(params.items()))
