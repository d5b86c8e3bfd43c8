"""Parquet: all columns of table.csv, each of one type in every run, a row for each cell; or a row for each record.

Failures are rows too.
"""

import io
from collections.abc import Sequence

from attnbench.report.exports.cell_names import cell_name
from attnbench.report.exports.exchange import Export, ExportError, Source
from attnbench.report.frame import frame
from attnbench.schema.model import Model
from attnbench.schema.record import Record
from attnbench.schema.training import Training

FILE = "cells.parquet"
_TYPES = {
    **dict.fromkeys(("replicates", "time_medians_s_per_call"), "object"),
    **dict.fromkeys(("causal", "uncommitted", "recompute"), "boolean"),
    **dict.fromkeys(("padding", "scale", "rate", "late_rate", "roof_floor_s_per_call", "energy_timed_share"), "Float64"),
    **dict.fromkeys(("N", "B", "H", "D", "M", "kv_heads", "new_tokens"), "Int64"),
    **dict.fromkeys(("n_replicates", "n_samples", "n_outliers", "parameters"), "Int64"),
    **{name: "Int64" for model in (Training, Model) for name, field in model.model_fields.items() if field.annotation is int},
}
"""By column; figures are floats, counters of memory integers, and all others texts."""


RECORDS = "records.parquet"
_PIP = "Parquet is written by pyarrow, which is not installed: pip install 'attnbench[parquet]'"


def make(sources: Sequence[Source]) -> Export:
    """Write one run or many, told apart by `run`. Raise ExportError where pyarrow is not installed."""
    # takes a second to import, and other formats do without
    import pandas as pd

    tables = []
    for findings in (source.findings for source in sources):
        run, table = findings.run, frame(findings)
        medians = [dict(sorted(summary.medians.items())) for summary in findings.summaries]
        more = {
            "name": [cell_name(summary.cell) for summary in findings.summaries],
            "suite": run.suite.name,
            "started": run.started,
            "commit": run.git.get("commit"),
            "uncommitted": run.git.get("dirty"),
            "replicates": [list(each) for each in medians],
            "time_medians_s_per_call": [list(each.values()) for each in medians],
        }
        # one column after the other would be a warning for each
        tables.append(pd.concat([table, pd.DataFrame(more, index=table.index, dtype=object)], axis=1))
    figures = {f"{each.column}{end}" for s in sources for each in s.findings.figures for end in ("", "_low", "_high")}
    columns = list(dict.fromkeys(name for table in tables for name in table.columns))
    # by the name alone, so that runs can be laid one below the other
    usual = {name: "Int64" if name.endswith("_bytes_of_batch") else "string" for name in columns}
    types = {name: _TYPES.get(name, "Float64" if name in figures else usual[name]) for name in columns}
    whole = pd.concat([table.reindex(columns=columns).astype(types) for table in tables], ignore_index=True)
    try:
        content = whole.to_parquet(None, engine="pyarrow", index=False)
    except ImportError:
        raise ExportError(_PIP) from None
    return Export({FILE: content})


def make_records(sources: Sequence[Source]) -> Export:
    """Write all records of a run with their samples, and each as the line that records.jsonl has of it.

    In a run folder it is read where records.jsonl is not there. Raises ExportError where pyarrow is not installed.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ExportError(_PIP) from None
    (source,) = sources
    texts = ("cell", "method", "workload", "pass", "status", "reason", "host", "device", "started", "record")
    numbers = {"N": pyarrow.int64(), "replicate": pyarrow.int64(), "attempt": pyarrow.int64(), "seconds": pyarrow.float64()}
    samples = {"samples": pyarrow.map_(pyarrow.string(), pyarrow.list_(pyarrow.float64()))}
    schema = pyarrow.schema({**{name: pyarrow.string() for name in texts}, **numbers, **samples})
    with io.BytesIO() as made:
        with parquet.ParquetWriter(made, schema, compression="zstd", write_page_checksum=True) as writer:
            for start in range(0, len(source.records), 1000):
                rows = list(map(_row, source.records[start : start + 1000]))
                writer.write_table(pyarrow.Table.from_pylist(rows, schema))
        return Export({RECORDS: made.getvalue()})


def _row(record: Record) -> dict[str, object]:
    job, failed = record.job, record.failed
    return {
        "cell": job.cell.key,
        "method": job.cell.label,
        "workload": job.cell.workload,
        "pass": job.phase,
        **({"status": failed.status, "reason": failed.reason} if failed else {"status": "ok"}),
        "host": record.host,
        "device": record.device,
        "started": record.started,
        "record": record.line(),
        "N": job.cell.problem.N,
        "replicate": job.replicate,
        "attempt": job.attempt,
        "seconds": record.seconds,
        "samples": {name: list(series.values) for name, series in record.outcome.samples.items()},
    }
