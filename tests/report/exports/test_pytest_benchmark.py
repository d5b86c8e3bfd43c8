"""pytest-benchmark's JSON, by its own statistics and its own command."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest_benchmark.stats import Stats

from attnbench.report.exports.exchange import Source
from attnbench.report.exports.pytest_benchmark import make, round_stats
from attnbench.report.findings import Findings
from attnbench.schema.cell import Workload
from attnbench.schema.errand import Pass
from attnbench.schema.outcome import MASS_RECALL, OUTPUT_ERROR, Measured, Series
from tests.report.conftest import Synthetic
from tests.report.exports.conftest import Maker, content


def read(source: Source) -> Any:
    return content(make([source]))


@settings(deadline=None)
@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=20))
def test_the_statistics_are_those_of_pytest_benchmark(values: list[float]) -> None:
    theirs, ours = Stats(), round_stats(values)
    for value in values:
        theirs.update(value)
    known = theirs.as_dict()
    # a value that lies on a fence may fall to either side of it by rounding
    sure = {"min", "max", "rounds", "median", "q1", "q3", "iqr", "mean", "stddev", "ops", "total"}
    assert {name: ours[name] for name in sure} == pytest.approx({name: known[name] for name in sure})
    assert known.keys() | {"data", "iterations"} == ours.keys()


@pytest.mark.parametrize(
    "values",
    [
        [3.0],
        [1.0, 2.0],
        [1.0, 2.0, 4.0],
        [1.0, 2.0, 3.0, 4.0],
        [5.0, 1.0, 2.0, 3.0, 100.0],
        [1.0, 1.1, 1.2, 1.3, 1.4, 9.0, 0.1],
    ],
)
def test_outliers_and_whiskers_are_those_of_pytest_benchmark(values: list[float]) -> None:
    theirs, ours = Stats(), round_stats(values)
    for value in values:
        theirs.update(value)
    assert {name: ours[name] for name in Stats.fields} == pytest.approx(theirs.as_dict())


def test_a_round_is_a_replicate_and_seconds_are_those_of_a_sample(maker: Maker) -> None:
    source = maker.source(Synthetic(tokens=4096, replicates=4))
    by_key = {summary.cell.key: summary for summary in source.findings.summaries}
    for benchmark in read(source)["benchmarks"]:
        summary = by_key[benchmark["extra_info"]["cell"]]
        assert benchmark["stats"]["rounds"] == 4
        assert benchmark["stats"]["data"] == [summary.times[i] for i in range(4)]
        assert benchmark["extra_info"]["seconds_per_call"] == pytest.approx(benchmark["stats"]["median"] * summary.B)


def test_a_failed_cell_is_listed_and_no_benchmark(maker: Maker, small: Synthetic) -> None:
    data = read(maker.source(small))
    failed = data["attnbench"]["without_numbers"]
    assert {each["status"] for each in failed} == {"oom_host", "incorrect"}
    assert all(each["reason"] for each in failed)
    assert not {each["name"] for each in failed} & {each["fullname"] for each in data["benchmarks"]}
    assert len(failed) + len(data["benchmarks"]) == len(small.run().cells)


def test_a_fact_that_json_has_no_number_for_is_a_word(maker: Maker, tiny: Synthetic) -> None:
    run = maker.run(tiny)
    odd = run.model_copy(update={"environment": {**run.environment, "odd": [float("nan"), float("inf")]}})
    assert read(Source(Findings.of(odd, tiny.records())))["machine_info"]["facts"]["odd"] == ["nan", "inf"]


def test_fidelity_has_no_time_and_that_is_said(maker: Maker, tiny: Synthetic) -> None:
    tiny.workloads = (Workload.FIDELITY,)
    kept = Series(unit="1", values=(0.5,))
    outcome = Measured(samples={MASS_RECALL: kept, OUTPUT_ERROR: kept})
    records = [tiny.record(cell, outcome, phase=Pass.FIDELITY) for cell in tiny.run().cells]
    export = make([Source(Findings.of(maker.run(tiny), records))])
    assert content(export)["benchmarks"] == []
    assert export.notes == ("left out: 4 cells that are scored and not timed",)


def test_pytest_benchmark_compares_two_runs(either: Synthetic, maker: Maker, tmp_path: Path) -> None:
    for name, factor in (("old", 1.0), ("new", 1.5)):
        (text,) = make([maker.source(either, factor=factor)]).files.values()
        (tmp_path / f"{name}.json").write_bytes(text)
    command = [sys.executable, "-m", "pytest_benchmark", "compare", "old.json", "new.json", "--group-by=fullname"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=True)
    measured = sum(summary.ok for summary in maker.source(either).findings.summaries)
    assert done.stdout.count("2 tests") == measured
    assert "(1.5" in done.stdout or "(1.50)" in done.stdout
