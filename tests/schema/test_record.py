"""One line of records.jsonl: what is written is read back, and what is no record says why."""

import json
import math
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from attnbench.schema.cell import Cell
from attnbench.schema.errand import Job, Limits, Pass
from attnbench.schema.outcome import Counter, Failed, Measured, Outcome, Series, Status
from attnbench.schema.problem import DType, Problem
from attnbench.schema.record import VERSION, Record, parse

FINITE = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
SCALAR = st.booleans() | st.integers() | FINITE | TEXT
PROBLEM = st.builds(
    lambda B, kv_heads, groups, N, D, M, dtype, causal: Problem(
        B=B, H=kv_heads * groups, N=N, D=D, M=M, kv_heads=kv_heads, dtype=dtype, causal=causal
    ),
    *[st.integers(1, 2**20)] * 6,
    st.sampled_from(DType),
    st.booleans(),
)
CELL = st.builds(Cell, method=TEXT, problem=PROBLEM, params=st.dictionaries(TEXT, SCALAR, max_size=3), device=TEXT)
JOB = st.builds(
    Job,
    cell=CELL,
    phase=st.sampled_from(Pass),
    replicate=st.integers(0, 9),
    warmup=st.none() | st.integers(0, 99),
    limits=st.builds(Limits, memory_bytes=st.none() | st.integers()),
)
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
RECORD = st.builds(
    Record, job=JOB, outcome=MEASURED | FAILED, environment=TEXT, started=TEXT, seconds=st.none() | FINITE, note=TEXT
)


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
