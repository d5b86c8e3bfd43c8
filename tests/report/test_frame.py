import io

import pandas as pd
import pytest

from attnbench.analyze.quantities import quantities
from attnbench.report.conditions import warnings
from attnbench.report.findings import Findings
from attnbench.report.frame import COUNTERS, csv, frame
from attnbench.schema.cost import Cost
from attnbench.schema.figures import FIGURES
from attnbench.schema.outcome import Failed, Status
from tests.report.conftest import Synthetic


def read(synthetic: Synthetic) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(csv(Findings.of(synthetic.run(), synthetic.records()))))


def test_every_planned_cell_is_a_row_and_pandas_reads_it_back() -> None:
    run = Synthetic(tokens=4096)
    table = read(run)
    assert list(table["cell"]) == [cell.key for cell in run.run().cells]
    assert set(table["status"]) == {"ok", "oom_host", "budget", "unsupported", "crashed", "incorrect"}


def test_a_failed_row_has_a_reason_and_no_number(small: Synthetic) -> None:
    table = read(small)
    failed, fine = table[table["status"] != "ok"], table[table["status"] == "ok"]
    numbers = [c for c in map(str, table.columns) if c.startswith(("time_", "tokens_", "throughput_", "roof", "memory_bytes"))]
    assert failed["reason"].notna().all()
    assert failed[numbers].isna().all().all()
    assert failed["memory_reason"].notna().all()
    assert fine[numbers].notna().all().all()


def test_figures_per_sample_and_throughput_follow_from_the_call() -> None:
    table = read(Synthetic(tokens=4096))
    row = table[(table["status"] == "ok") & (table["N"] == 512)].iloc[0]
    assert row["B"] == 8
    assert row["tokens_per_s"] == pytest.approx(512 / row["time_s"])
    assert row["throughput_per_s"] == pytest.approx(1 / row["time_s"])
    assert row["time_s_low"] <= row["time_s"] <= row["time_s_high"]
    assert row["memory_bytes"] == row["host_rss_peak_bytes_of_batch"] / 8


def test_every_figure_of_the_vocabulary_has_a_column(small: Synthetic) -> None:
    known = quantities(())
    assert {known[name].column for name in FIGURES} <= set(read(small).columns)


@pytest.mark.parametrize(("replicates", "kind"), [(4, "band"), (5, "interval")])
def test_the_range_says_what_it_is(small: Synthetic, replicates: int, kind: str) -> None:
    small.replicates = replicates
    assert set(read(small)["time_interval"].dropna()) == {kind}


def test_each_counter_has_bytes_source_and_reason(small: Synthetic) -> None:
    row = read(small).iloc[0]
    assert row["torch_allocated_peak_reason"] == "this cell ran on a CPU"
    assert pd.isna(row["torch_allocated_peak_bytes_of_batch"])
    assert row["host_rss_peak_source"].startswith("VmHWM")
    assert row["nvml_process_peak_reason"] == "nvml_process_peak was not recorded"


def test_counts_stay_whole_numbers_beside_gaps(small: Synthetic) -> None:
    text = csv(Findings.of(small.run(), small.records()))
    sizes = pd.read_csv(io.StringIO(text), dtype=str)["host_rss_peak_bytes_of_batch"].dropna()
    assert len(sizes) > 0
    assert sizes.str.fullmatch(r"\d+").all()


def test_the_columns_are_the_same_for_an_empty_run(small: Synthetic) -> None:
    full, empty = frame(Findings.of(small.run(), small.records())), frame(Findings.of(small.run(), []))
    assert list(full) == list(empty)
    assert set(empty["status"]) == {"not_run"}
    assert {f"{name.removesuffix('_bytes')}_bytes_of_batch" for name in COUNTERS} <= set(empty)


def test_a_time_below_the_roof_is_called_an_error_of_measurement(small: Synthetic) -> None:
    run = small.run()
    cell = run.cells[0]
    absurd = Cost(nominal_flops=1, exact_flops=1, executed_flops=1e15, traffic_bytes=1)
    table = frame(Findings.of(run.model_copy(update={"costs": {**run.costs, cell.key: absurd}}), small.records()))
    assert table["roof"][0] > 1
    assert "error of measurement" in table["warning"][0]
    assert not table["warning"][1]
    assert table["roof_floor_s_per_call"][1] == pytest.approx(16 * 8 * 512 * 64 / 1.7e10)


def test_traffic_above_the_roof_s_copy_is_that_of_a_cache_and_no_error(small: Synthetic) -> None:
    run = small.run()
    cell = run.cells[0]
    much = Cost(nominal_flops=1, exact_flops=1, executed_flops=1, traffic_bytes=1e15)
    findings = Findings.of(run.model_copy(update={"costs": {**run.costs, cell.key: much}}), small.records())
    warning = frame(findings)["warning"][0]
    assert "stayed in cache" in warning
    assert "error" not in warning
    notes = warnings(findings, findings.summaries)
    assert any(note.startswith("Above the roof where what a call touches stayed in cache") for note in notes)
    assert not any(note.startswith("Warning: ") for note in notes)


def test_half_a_failure_keeps_its_numbers_out(small: Synthetic) -> None:
    cell = small.run().cells[1]
    crash = small.record(cell, Failed(status=Status.CRASHED, reason="killed"), replicate=2)
    table = frame(Findings.of(small.run(), [r for r in small.records() if r.job.replicate < 2] + [crash]))
    row = table[table["cell"] == cell.key].iloc[0]
    assert (row["status"], row["n_replicates"], row["time_s"]) == ("crashed", 2, None)


def test_a_batch_that_was_found_is_that_of_the_row_with_what_bounds_it(decoding: Synthetic) -> None:
    table = read(decoding)
    row = table[(table["method"] == "softmax.sdpa") & (table["N"] == 1024) & (table["batch"] == "largest")].iloc[0]
    assert (row["B"], row["batch_bound"], row["padding"]) == (100, "oom_host", 0.0)
    # a token of each of a hundred sequences
    assert row["tokens_per_s"] == pytest.approx(1 / row["time_s"])
    assert (row["state_bytes"], row["state_bytes_of_batch"]) == (2**22, 100 * 2**22)
    assert table[table["batch"] == "fixed"]["batch_bound"].isna().all()


def test_what_keeps_no_state_has_an_empty_one_with_the_reason(small: Synthetic) -> None:
    fine = read(small).iloc[0]
    assert pd.isna(fine["state_bytes_of_batch"])
    assert fine["state_bytes_reason"] == "state_bytes was not recorded"
