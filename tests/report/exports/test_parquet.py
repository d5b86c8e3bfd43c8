"""Parquet: typed columns, whatever a run holds; and reading it back."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from attnbench.report.exports import parquet
from attnbench.report.exports.cell_names import cell_name
from attnbench.report.exports.exchange import ExportError, Source
from attnbench.report.findings import Findings
from attnbench.report.frame import frame
from attnbench.schema.cell import Workload
from attnbench.schema.outcome import Failed
from attnbench.store.run_folder import RunFolder
from tests.report.conftest import Synthetic
from tests.report.exports.conftest import commit_of, source_of


def whole(written: list[pd.DataFrame], *sources: Source) -> pd.DataFrame:
    assert parquet.make(sources).files == {"cells.parquet": b"PAR1"}
    return written[-1]


def test_every_cell_of_every_run_is_a_row_with_lists_of_medians_or_a_reason_and_no_number(
    written: list[pd.DataFrame], small: Synthetic
) -> None:
    sources = [source_of(small, day) for day in (1, 2)]
    table = whole(written, *sources)
    assert set(frame(sources[0].findings).columns) <= set(table.columns)
    assert list(table["name"]) == [cell_name(cell) for cell in small.run().cells] * 2
    assert list(table["run"].unique()) == ["20260101-030405-abcdef", "20260102-030405-abcdef"]
    assert list(table["commit"].unique()) == [commit_of(1), commit_of(2)]
    summaries = [summary for source in sources for summary in source.findings.summaries]
    medians = zip(table["replicates"], table["time_medians_s_per_call"], strict=True)
    assert [dict(zip(*each, strict=True)) for each in medians] == [summary.medians for summary in summaries]
    failed = table[table["status"] != "ok"]
    assert set(failed["status"]) == {"oom_host", "incorrect"}
    assert failed["reason"].str.len().min() > 0
    assert failed[["time_s", "memory_bytes"]].isna().all().all()


def test_types_do_not_depend_on_what_a_run_holds(written: list[pd.DataFrame], small: Synthetic, hopeless: Synthetic) -> None:
    full, empty = (whole(written, source_of(made)).dtypes for made in (small, hopeless))
    assert list(full.index) == list(empty.index)
    assert list(full) == list(empty)
    kinds = {str(kind): {name for name in full.index if str(full[name]) == str(kind)} for kind in full}
    assert kinds["Int64"] >= {"N", "B", "host_rss_peak_bytes_of_batch", "state_bytes_of_batch", "n_samples", "pairs"}
    assert kinds["Float64"] >= {"time_s", "memory_bytes", "roof", "rate"}
    assert kinds["boolean"] == {"causal", "uncommitted", "recompute"}
    assert kinds["object"] == {"replicates", "time_medians_s_per_call"}


def test_shares_and_counts_are_numbers(written: list[pd.DataFrame], small: Synthetic) -> None:
    small.workloads = (Workload.VERIFY,)
    source = source_of(small)
    facts = {"energy_timed_share": 0.95}
    summaries = [replace(s, facts={**s.facts, **facts}) if s.ok else s for s in source.findings.summaries]
    table = whole(written, replace(source, findings=Findings.over(source.findings.run, summaries)))
    assert table.loc[table["status"] == "ok", "energy_timed_share"].mean() == pytest.approx(0.95)
    assert list(table["new_tokens"].unique()) == [1]
    assert (str(table["energy_timed_share"].dtype), str(table["new_tokens"].dtype)) == ("Float64", "Int64")


def test_without_pyarrow_the_way_to_it_is_said(monkeypatch: pytest.MonkeyPatch, small: Synthetic) -> None:
    def to_parquet(self: pd.DataFrame, path: None, engine: str, index: bool) -> bytes:
        raise ImportError("no pyarrow")

    monkeypatch.setattr(pd.DataFrame, "to_parquet", to_parquet)
    with pytest.raises(ExportError, match=r"pip install 'attnbench\[parquet\]'"):
        parquet.make([source_of(small)])


def test_pandas_reads_it_back(small: Synthetic, tmp_path: Path) -> None:
    sources = [source_of(small, day) for day in (1, 2)]
    file = tmp_path / "cells.parquet"
    file.write_bytes(parquet.make(sources).files["cells.parquet"])
    table = pd.read_parquet(file)
    assert list(table["cell"]) == [cell.key for cell in small.run().cells] * 2
    medians = [list(summary.medians.values()) for source in sources for summary in source.findings.summaries]
    assert [list(each) for each in table["time_medians_s_per_call"]] == medians
    kinds = pd.read_parquet(file, dtype_backend="pyarrow").dtypes.astype(str)
    assert [kinds[name] for name in ("N", "causal", "time_s")] == ["int64[pyarrow]", "bool[pyarrow]", "double[pyarrow]"]
    assert kinds["reason"] in {"string", "string[pyarrow]", "large_string[pyarrow]"}
    assert kinds["time_medians_s_per_call"].startswith("list<")
    assert "double" in kinds["time_medians_s_per_call"]


def test_the_records_of_a_run_folder_may_be_kept_as_parquet(small: Synthetic, tmp_path: Path) -> None:
    source = source_of(small)
    folder = RunFolder.create(tmp_path, source.findings.run)
    (folder.path / "records.parquet").write_bytes(parquet.make_records([source]).files["records.parquet"])
    assert folder.records() == list(source.records)
    table = pd.read_parquet(folder.path / "records.parquet")
    assert list(table["method"]) == [record.job.cell.label for record in source.records]
    for status, samples, record in zip(table["status"], table["samples"], source.records, strict=True):
        assert status == (record.outcome.status if isinstance(record.outcome, Failed) else "ok")
        kept = {name: tuple(values) for name, values in samples}
        assert kept == {name: series.values for name, series in record.outcome.samples.items()}
