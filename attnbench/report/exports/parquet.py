"""Parquet: all columns of table.csv, each of one type in every run, a row for each cell, failures included."""

from collections.abc import Sequence

import pandas as pd

from attnbench.report.exports.cell_names import cell_name
from attnbench.report.exports.exchange import Export, ExportError, Source
from attnbench.report.questions.growth.long_form import frame
from attnbench.schema.outcome import FIDELITY_SCORES, LEARNT_SCORES, NUMERICS_SCORES
from attnbench.schema.training import Training

FILE = "cells.parquet"
_SCORES = (*FIDELITY_SCORES, *NUMERICS_SCORES, *LEARNT_SCORES)
_FLOATS = frozenset(
    {
        *(f"{score}{end}" for score in _SCORES for end in ("", "_low", "_high")),
        *("padding", "scale", "rate", "late_rate", "flops_of_dense", "roof_floor_s_per_call", "roof_fraction"),
        *("throughput_tokens_per_s", "memory_bytes_per_sample"),
    }
)
_INTEGERS = frozenset(
    {
        *("N", "B", "H", "D", "M", "kv_heads", "n_replicates", "n_samples", "n_outliers", "parameters"),
        *(name for name, field in Training.model_fields.items() if field.annotation is int),
    }
)
_BOOLEANS = frozenset({"causal", "uncommitted", "recompute"})
_LISTS = ("replicates", "time_medians_s_per_call")


def make(sources: Sequence[Source]) -> Export:
    """Of one run or of many, told apart by `run`. Raises ExportError where pyarrow is not installed."""
    tables = [_table(source) for source in sources]
    columns = list(dict.fromkeys(name for table in tables for name in table.columns))
    whole = pd.concat([_typed(table.reindex(columns=columns)) for table in tables], ignore_index=True)
    try:
        content = whole.to_parquet(None, engine="pyarrow", index=False)
    except ImportError:
        raise ExportError("Parquet is written by pyarrow, which is not installed: pip install 'attnbench[parquet]'") from None
    return Export({FILE: content})


def _table(source: Source) -> pd.DataFrame:
    findings, run = source.findings, source.findings.run
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
    table = frame(findings)
    # one column after the other would be a warning for each
    return pd.concat([table, pd.DataFrame(more, index=table.index, dtype=object)], axis=1)


def _typed(table: pd.DataFrame) -> pd.DataFrame:
    return table.astype({name: _type(name) for name in table.columns})


def _type(name: str) -> str:
    """By the name of a column alone, so that runs can be laid one below the other."""
    if name in _LISTS:
        return "object"
    if name in _BOOLEANS:
        return "boolean"
    if name in _FLOATS or name.startswith("time_"):
        return "Float64"
    return "Int64" if name in _INTEGERS or name.endswith("_bytes") else "string"
