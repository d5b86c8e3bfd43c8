"""run.json: whether two runs are one, and which versions are read."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from attnbench.schema.cell import Cell
from attnbench.schema.cost import Cost
from attnbench.schema.errand import Description, Surroundings
from attnbench.schema.problem import Problem
from attnbench.schema.run import RUN_VERSION, RunInfo
from attnbench.schema.suite import Suite

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
