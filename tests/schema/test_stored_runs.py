"""What is stored of a run, run.json and lines of records.jsonl: it is read back as it was written, or it is said why not."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from attnbench.schema.cell import Cell
from attnbench.schema.cost import Cost
from attnbench.schema.errand import Description, Job, Limits, Pass, Surroundings
from attnbench.schema.outcome import Counter, Failed, Measured, Outcome, Series, Status
from attnbench.schema.problem import DType, Problem
from attnbench.schema.record import VERSION, Record, parse
from attnbench.schema.run import RUN_VERSION, RunInfo
from attnbench.schema.suite import Suite

FINITE = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
SCALAR = st.booleans() | st.integers() | FINITE | TEXT
PROBLEM = st.builds(
    lambda heads, groups, **fields: Problem(H=heads * groups, kv_heads=heads, **fields),
    **dict.fromkeys(("heads", "groups", "B", "N", "D", "M"), st.integers(1, 2**20)),
    **{"dtype": st.sampled_from(DType), "causal": st.booleans()},
)
CELL = st.builds(Cell, method=TEXT, problem=PROBLEM, params=st.dictionaries(TEXT, SCALAR, max_size=3), device=TEXT)
LIMITS = st.builds(Limits, memory_bytes=st.none() | st.integers())
COUNTS = {"replicate": st.integers(0, 9), "warmup": st.none() | st.integers(0, 99)}
JOB = st.builds(Job, cell=CELL, phase=st.sampled_from(Pass), limits=LIMITS, **COUNTS)
SERIES = st.builds(Series, unit=TEXT, values=st.lists(FINITE, max_size=4).map(tuple))
COUNTER = st.builds(Counter, bytes=st.none() | st.integers(), source=TEXT, reason=st.none() | TEXT)
MEASURED = st.builds(
    Measured,
    samples=st.dictionaries(TEXT, SERIES, max_size=2),
    memory=st.dictionaries(TEXT, COUNTER, max_size=2),
    facts=st.dictionaries(TEXT, st.none() | SCALAR, max_size=3),
    flags=st.lists(TEXT, max_size=2).map(tuple),
)
FAILED = st.builds(Failed, status=st.sampled_from(Status), reason=TEXT, detail=TEXT)
TEXTS = {"environment": TEXT, "started": TEXT, "note": TEXT}
RECORD = st.builds(Record, job=JOB, outcome=MEASURED | FAILED, seconds=st.none() | FINITE, **TEXTS)


def record(outcome: Outcome | None = None, **fields: Any) -> Record:
    failed = Failed(status=Status.ERROR, reason="r")
    job = Job(cell=Cell(method="m", problem=Problem(N=8)))
    return Record(job=job, outcome=outcome or failed, environment="e", started="s", **fields)


@settings(deadline=None)
@given(RECORD)
def test_a_record_comes_back_from_its_line(written: Record) -> None:
    line = written.line()
    assert "\n" not in line
    back = parse(line)
    assert back == written
    # 1, 1.0 and True are equal in Python and not in a result
    assert repr(back) == repr(written)


def test_a_line_states_its_schema_version_and_writes_text_as_itself() -> None:
    line = record(note="3 µs × 2").line()
    assert json.loads(line)["schema_version"] == VERSION
    assert "3 µs × 2" in line


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_none_is_refused_when_written(value: float) -> None:
    series = Series(unit="s", values=(value,))
    for outcome in (Measured(samples={"time": series}), Measured(facts={"load": value})):
        with pytest.raises(ValueError, match="not JSON compliant"):
            record(outcome).line()


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (VERSION + 1, rf"written by a newer attnbench \(schema {VERSION + 1}, this one reads up to {VERSION}\)"),
        *((version, f"schema {version} was never written") for version in (0, -1, -(10**12))),
        *((version, "no schema_version") for version in (None, "1", 1.0, True, [1])),
    ],
)
def test_a_line_of_another_schema_is_refused_in_words(version: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse(json.dumps({**json.loads(record().line()), "schema_version": version}))


@pytest.mark.parametrize("change", [{"new": 1}, {"seconds": "1"}, {"outcome": {"kind": "other"}}, {"job": None}])
def test_unknown_keys_and_wrong_types_are_refused(change: dict[str, object]) -> None:
    line = json.dumps({**json.loads(record().line()), **change})
    with pytest.raises(ValueError, match=next(iter(change))):
        parse(line)


@settings(deadline=None)
@given(st.text() | st.recursive(st.none() | st.integers(), st.lists, max_leaves=4).map(json.dumps))
@example("")
@example("{}")
@example('{"schema_version":1}')
@example("[" * 100_000)
def test_any_other_text_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse(text)


STORED = Path(__file__).parents[2] / "results" / "reference" / "xeon-2-cores" / "linear_memory" / "run.json"
"""A recorded run from when costs held a predicted peak."""


def run_info(*, suite: dict[str, Any] | None = None, version: str = "1", **environment: str) -> RunInfo:
    fields = {"name": "s", "axes": {"N": [8, 16]}, "methods": ["m"], **(suite or {})}
    description = Description(method="m", paper="p", tier="eager", causality="full", summary="s", version=version)
    plain: dict[str, Any] = {"id": "i", "command": "c", "started": "s", "environment_digest": "d"}
    return RunInfo(
        **plain,
        environment={"torch": "2.11", **environment},
        suite=Suite.model_validate(fields, strict=False),
        surroundings=Surroundings(device="cpu", facts={}, memory_bytes=1, roof={}),
        methods={"m": description},
        cells=(Cell(method="m", problem=Problem(N=8)),),
    )


@pytest.mark.parametrize(
    ("then", "now", "differences"),
    [
        (run_info(), run_info(), []),
        (run_info(), run_info().model_copy(update={"id": "j", "command": "d", "started": "t"}), []),
        (run_info(), run_info(version="2"), ["method.m: '1' then, '2' now"]),
        (run_info(), run_info(suite={"axes": {"N": [8]}}), ["suite.axes.N: [8, 16] then, [8] now"]),
        (run_info(), run_info(driver="595"), ["environment.driver: None then, '595' now"]),
        (run_info(driver="595"), run_info(), ["environment.driver: '595' then, None now"]),
        (
            run_info(),
            run_info(suite={"seed": 7, "replicates": 5}, torch="2.13"),
            ["suite.replicates: 3 then, 5 now", "suite.seed: 0 then, 7 now", "environment.torch: '2.11' then, '2.13' now"],
        ),
    ],
    ids=["itself", "identity, command and time", "method", "deep", "only the second has it", "only the first", "all at once"],
)
def test_differences_of_two_runs_name_the_place_and_both_values(then: RunInfo, now: RunInfo, differences: list[str]) -> None:
    assert then.differences(now) == differences
    assert RunInfo.model_validate_json(now.model_dump_json()) == now


@pytest.mark.parametrize("version", [0, RUN_VERSION + 1])
def test_another_schema_version_is_refused_in_words(version: int) -> None:
    text = json.dumps({**json.loads(run_info().model_dump_json()), "schema_version": version})
    words = rf"written by another attnbench \(schema {version}, this one reads {RUN_VERSION}\)"
    with pytest.raises(ValidationError, match=words):
        RunInfo.model_validate_json(text)


def test_a_stored_run_is_read_without_the_peaks_that_it_predicted_and_any_other_unknown_field_is_an_error() -> None:
    costs = json.loads(STORED.read_text())["costs"]
    info = RunInfo.model_validate_json(STORED.read_text())
    assert all("peak_bytes" in cost for cost in costs.values())
    for key, cost in costs.items():
        assert info.costs[key].model_dump() == {name: each for name, each in cost.items() if name != "peak_bytes"}
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        Cost.model_validate({**next(iter(costs.values())), "peak": 1})
