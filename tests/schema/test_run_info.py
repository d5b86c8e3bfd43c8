"""run.json: whether two runs are one, and which versions are read."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from attnbench.schema.cell import Cell
from attnbench.schema.errand import Description, Surroundings
from attnbench.schema.problem import Problem
from attnbench.schema.run import RUN_VERSION, RunInfo
from attnbench.schema.suite import Suite


def run_info(*, suite: dict[str, Any] | None = None, version: str = "1", **environment: str) -> RunInfo:
    fields = {"name": "s", "axes": {"N": [8, 16]}, "methods": ["m"], **(suite or {})}
    description = Description(method="m", paper="p", tier="eager", causality="full", summary="s", version=version)
    return RunInfo(
        id="i",
        suite=Suite.model_validate(fields, strict=False),
        command="c",
        started="s",
        environment={"torch": "2.11", **environment},
        environment_digest="d",
        surroundings=Surroundings(device="cpu", facts={}, memory_bytes=1, roof={}),
        methods={"m": description},
        cells=(Cell(method="m", problem=Problem(N=8)),),
    )


def test_a_run_does_not_differ_from_itself() -> None:
    assert run_info().differences(run_info()) == []


def test_identity_command_and_time_are_no_difference() -> None:
    again = run_info().model_copy(update={"id": "j", "command": "d", "started": "t"})
    assert run_info().differences(again) == []


def test_a_difference_names_the_place_and_both_values() -> None:
    assert run_info().differences(run_info(torch="2.13")) == ["environment.torch: '2.11' then, '2.13' now"]
    assert run_info(version="1").differences(run_info(version="2")) == ["method.m: '1' then, '2' now"]
    assert run_info().differences(run_info(suite={"replicates": 5})) == ["suite.replicates: 3 then, 5 now"]


def test_a_value_deep_in_the_suite_is_named_by_its_path() -> None:
    assert run_info().differences(run_info(suite={"axes": {"N": [8]}})) == ["suite.axes.N: [8, 16] then, [8] now"]


def test_what_only_one_run_has_is_a_difference() -> None:
    assert run_info().differences(run_info(driver="595")) == ["environment.driver: None then, '595' now"]
    assert run_info(driver="595").differences(run_info()) == ["environment.driver: '595' then, None now"]


def test_all_differences_are_told_at_once() -> None:
    other = run_info(suite={"seed": 7, "replicates": 5}, version="2", torch="2.13")
    assert [line.partition(":")[0] for line in run_info().differences(other)] == [
        "suite.replicates",
        "suite.seed",
        "method.m",
        "environment.torch",
    ]


def test_run_info_survives_json() -> None:
    info = run_info()
    assert RunInfo.model_validate_json(info.model_dump_json()) == info


@pytest.mark.parametrize("version", [0, RUN_VERSION + 1])
def test_another_schema_version_is_refused_in_words(version: int) -> None:
    text = json.dumps({**json.loads(run_info().model_dump_json()), "schema_version": version})
    with pytest.raises(
        ValidationError, match=rf"written by another attnbench \(schema {version}, this one reads {RUN_VERSION}\)"
    ):
        RunInfo.model_validate_json(text)
