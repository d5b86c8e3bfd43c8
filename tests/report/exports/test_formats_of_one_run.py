"""Formats that hold one run: pytest-benchmark's and pyperf's JSON by these tools, flat lists of values by documented forms."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest_benchmark.stats import Stats

from attnbench.report.exports import pyperf, pytest_benchmark
from attnbench.report.exports.exchange import Source
from attnbench.report.exports.flat import bencher, github_action
from attnbench.schema.cell import Workload
from attnbench.schema.errand import Job, Pass
from attnbench.schema.outcome import MASS_RECALL, OUTPUT_ERROR, Failed, Measured, Series, Status
from tests.report.conftest import Synthetic
from tests.report.exports.conftest import Tool, content, source_of
from tests.report.scored_runs import changed

NAME = "forward/causal/float32/N=512/linear.chunked(chunk=64)"


def github(source: Source) -> Any:
    return content(github_action([source], bigger=False))


def bmf(source: Source) -> Any:
    return content(bencher([source]))


# pytest-benchmark


def their_statistics(values: list[float]) -> Any:
    theirs = Stats()
    for value in values:
        theirs.update(value)
    return theirs.as_dict()


@settings(deadline=None)
@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=20))
def test_the_statistics_are_those_of_pytest_benchmark(values: list[float]) -> None:
    ours, known = pytest_benchmark.round_stats(values), their_statistics(values)
    # a value that lies on a fence may fall to either side of it by rounding
    sure = {"min", "max", "rounds", "median", "q1", "q3", "iqr", "mean", "stddev", "ops", "total"}
    assert {name: ours[name] for name in sure} == pytest.approx({name: known[name] for name in sure})
    assert known.keys() | {"data", "iterations"} == ours.keys()


@pytest.mark.parametrize(
    "values",
    [[3.0], [1.0, 2.0], [1.0, 2.0, 4.0], [1.0, 2.0, 3.0, 4.0], [5.0, 1.0, 2.0, 3.0, 100.0], [1, 1.1, 1.2, 1.3, 1.4, 9, 0.1]],
)
def test_outliers_and_whiskers_are_those_of_pytest_benchmark(values: list[float]) -> None:
    ours = pytest_benchmark.round_stats(values)
    assert {name: ours[name] for name in Stats.fields} == pytest.approx(their_statistics(values))


def test_a_round_is_a_replicate_and_seconds_are_those_of_a_sample() -> None:
    source = source_of(Synthetic(tokens=4096, replicates=4))
    by_key = {summary.cell.key: summary for summary in source.findings.summaries}
    for benchmark in content(pytest_benchmark.make([source]))["benchmarks"]:
        summary = by_key[benchmark["extra_info"]["cell"]]
        assert benchmark["stats"]["data"] == [summary.times[i] for i in range(4)]
        assert benchmark["extra_info"]["seconds_per_call"] == pytest.approx(benchmark["stats"]["median"] * summary.B)


def test_a_fact_that_json_has_no_number_for_is_a_word(tiny: Synthetic) -> None:
    odd = {**tiny.run().environment, "odd": [float("nan"), float("inf")]}
    assert content(pytest_benchmark.make([source_of(tiny, environment=odd)]))["machine_info"]["facts"]["odd"] == ["nan", "inf"]


def test_fidelity_has_no_time_and_that_is_said(tiny: Synthetic) -> None:
    tiny.workloads = (Workload.FIDELITY,)
    kept = Series(unit="1", values=(0.5,))
    outcome = Measured(samples={MASS_RECALL: kept, OUTPUT_ERROR: kept})
    records = [tiny.record(cell, outcome, phase=Pass.FIDELITY) for cell in tiny.run().cells]
    export = pytest_benchmark.make([source_of(tiny, records=records)])
    assert (content(export)["benchmarks"], export.notes) == ([], ("left out: 4 cells scored and not timed",))


def test_pytest_benchmark_compares_two_runs(either: Synthetic, tmp_path: Path) -> None:
    for name, factor in (("old", 1.0), ("new", 1.5)):
        (text,) = pytest_benchmark.make([source_of(either, factor=factor)]).files.values()
        (tmp_path / f"{name}.json").write_bytes(text)
    command = [sys.executable, "-m", "pytest_benchmark", "compare", "old.json", "new.json", "--group-by=fullname"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=True)
    assert done.stdout.count("2 tests") == sum(summary.ok for summary in source_of(either).findings.summaries)
    assert "(1.5" in done.stdout or "(1.50)" in done.stdout


# pyperf


def benchmarks(source: Source) -> Any:
    return content(pyperf.make([source]))["benchmarks"]


def test_calls_that_were_timed_together_are_loops_and_warm_ups_are_kept(tiny: Synthetic) -> None:
    tiny.tokens = 4096
    records = [changed(record, {"warmup": 0.5}, {"batch": 7}) for record in tiny.records()]
    run, first = benchmarks(source_of(tiny, records=records))[0]["runs"][0], records[0].outcome
    assert (run["metadata"]["loops"], run["warmups"]) == (7 * 8, [[8, 0.5 / 8]])
    assert isinstance(first, Measured)
    assert [8 * value for value in run["values"]] == pytest.approx(first.samples["time"].values)


def test_the_last_attempt_of_a_replicate_counts(tiny: Synthetic) -> None:
    cell = tiny.run().cells[0]
    again = Measured(samples={"time": Series(unit="s", values=(4.0, 4.0))})
    stopped = Failed(status=Status.INTERRUPTED, reason="stopped by the user")
    records = tiny.records()
    for attempt, outcome in enumerate((again, stopped), 1):
        records.append(records[0].model_copy(update={"job": Job(cell=cell, attempt=attempt), "outcome": outcome}))
    (benchmark, *_) = benchmarks(source_of(tiny, records=records))
    assert benchmark["runs"][0]["values"] == [4.0, 4.0]


def test_metadata_is_what_pyperf_takes_and_has_no_date_that_is_none(hostile: Synthetic) -> None:
    records = [record.model_copy(update={"started": "yesterday"}) for record in hostile.records()]
    data = content(pyperf.make([source_of(hostile, records=records)]))
    of_runs = [run["metadata"] for benchmark in data["benchmarks"] for run in benchmark["runs"]]
    assert not [metadata for metadata in of_runs if "date" in metadata]
    every = [data["metadata"], *(benchmark["metadata"] for benchmark in data["benchmarks"]), *of_runs]
    for value in (value for metadata in every for value in metadata.values()):
        assert isinstance(value, int | float | str)
        assert value != ""
        assert "\n" not in str(value)


@pytest.mark.slow
@pytest.mark.parametrize("replicates", [1, 3])
def test_pyperf_checks_and_compares(replicates: int, either: Synthetic, tool: Tool, tmp_path: Path) -> None:
    either.replicates = replicates
    for name, factor in (("old", 1.0), ("new", 2.0)):
        (text,) = pyperf.make([source_of(either, factor=factor)]).files.values()
        (tmp_path / f"{name}.json").write_bytes(text)

    def said(*words: str) -> str:
        return tool("pyperf==2.10.*", "python", "-m", "pyperf", *words, cwd=tmp_path).stdout

    names = [benchmark["metadata"]["name"] for benchmark in benchmarks(source_of(either))]
    shown = said("show", "old.json")
    assert all(name in shown for name in names)
    said("check", "old.json")
    assert said("compare_to", "old.json", "new.json", "--table").count("2.00x slower") >= len(names)


# github-action-benchmark and Bencher


def test_the_action_gets_milliseconds_with_the_larger_half_of_their_interval(tiny: Synthetic) -> None:
    tiny.replicates = 5
    source = source_of(tiny)
    (entry,) = (each for each in github(source) if each["name"] == NAME)
    (summary,) = (s for s in source.findings.summaries if s.cell.params and s.cell.problem.N == 512)
    assert summary.time is not None
    middle, (low, high) = summary.time.value, summary.time.ends
    assert (entry["unit"], entry["extra"]) == ("ms", "5 replicates; range: 95 % t interval")
    assert entry["value"] == pytest.approx(1e3 * middle)
    assert float(entry["range"].removeprefix("± ")) == pytest.approx(1e3 * max(high - middle, middle - low), rel=0.01)


def test_a_single_replicate_has_no_range(tiny: Synthetic) -> None:
    tiny.replicates = 1
    source = source_of(tiny)
    assert all("range" not in entry for entry in github(source))
    assert all(measure.keys() == {"value"} for measures in bmf(source).values() for measure in measures.values())


def test_figures_are_per_sample_of_the_batch(tiny: Synthetic) -> None:
    one = bmf(source_of(tiny))[NAME]
    tiny.tokens = 2048
    many = bmf(source_of(tiny))[NAME.replace("N=512", "N=512/B=4")]
    assert many["host-rss-peak"] == one["host-rss-peak"]
    assert many["latency"]["value"] == pytest.approx(one["latency"]["value"], rel=0.2)


def test_memory_that_was_not_read_is_left_out(small: Synthetic) -> None:
    timed = source_of(small, records=[record for record in small.records() if record.job.phase.value != "memory"])
    assert not [entry for entry in github(timed) if "host_rss_peak" in entry["name"]]
    assert not [measures for measures in bmf(timed).values() if {"host-rss-peak", "memory"} & measures.keys()]


NUMBERS = {name: {"type": "number"} for name in ("value", "lower_value", "upper_value")}
MEASURE = {"type": "object", "properties": NUMBERS, "required": ["value"], "additionalProperties": False}
MEASURES = {"type": "object", "minProperties": 1, "patternProperties": {"^[a-z0-9-]{1,64}$": MEASURE}}
BENCHER = {
    "$schema": "http://json-schema.org/draft-07/schema",
    "type": "object",
    "minProperties": 1,
    "patternProperties": {".+": {**MEASURES, "additionalProperties": False}},
    "propertyNames": {"maxLength": 1024},
}
"""Bencher's own schema (draft 7, patterns of objects down to numbers), and the lengths that its reference names."""
WORD = {"type": "string", "minLength": 1}
ENTRY = {"name": WORD, "value": {"type": "number"}, "unit": WORD, "range": {"type": "string"}, "extra": {"type": "string"}}
REQUIRED = {"required": ["name", "value", "unit"], "additionalProperties": False}
ACTION = {"type": "array", "minItems": 1, "items": {"type": "object", "properties": ENTRY, **REQUIRED}}
"""The form that the action reads."""


@pytest.mark.slow
def test_the_schemas_of_bencher_and_of_the_action_take_it(either: Synthetic, tool: Tool, tmp_path: Path) -> None:
    source = source_of(either)
    entries = github(source)
    assert len({entry["name"] for entry in entries}) == len(entries)
    (tmp_path / "pairs.json").write_text(json.dumps([(bmf(source), BENCHER), (entries, ACTION)]))
    code = "import json, jsonschema; [jsonschema.validate(*pair) for pair in json.load(open('pairs.json'))]"
    tool("jsonschema==4.*", "python", "-c", code, cwd=tmp_path)
