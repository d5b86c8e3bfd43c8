"""Whole models in suites: their configurations say the heads, and bare cells beside them stay as they were."""

import json
from pathlib import Path
from typing import Any

import pytest

from attnbench.schema.cell import Cell, Workload
from attnbench.schema.model import Model
from attnbench.schema.problem import Problem
from attnbench.schema.suite import Suite
from attnbench.suite.expand import expand
from attnbench.suite.load import SuiteError
from attnbench.suite.models import ModelError, Sizes, file_of, sizes_of

SHIPPED = sorted(file.stem for file in file_of("llama-10m").parent.glob("*.json"))


def suite(**changes: Any) -> Suite:
    plain: dict[str, Any] = {"name": "t", "axes": {"N": [64, 128], "causal": True}, "workloads": ["model_prefill"]}
    plain |= {"model": {"config": "llama-10m"}, "methods": ["softmax.sdpa"]}
    return Suite.model_validate_json(json.dumps(plain | changes)).resolved("cpu")


def test_a_model_says_its_heads() -> None:
    cells = expand(suite())
    heads = {(c.problem.N, c.problem.H, c.problem.kv_heads, c.problem.D, c.problem.M) for c in cells}
    assert heads == {(64, 4, 2, 64, 64), (128, 4, 2, 64, 64)}
    assert {c.model for c in cells} == {Model(config="llama-10m")}


def test_bare_attentions_beside_a_model_keep_the_heads_of_the_axes_and_their_keys() -> None:
    cells = expand(suite(axes={"N": 64, "H": [2, 8], "causal": True}, workloads=["forward", "model_decode"]))
    found = sorted((c.workload.value, c.problem.H, c.problem.kv_heads) for c in cells)
    assert found == [("forward", 2, 2), ("forward", 8, 8), ("model_decode", 4, 2)]
    bare = next(c for c in cells if c.problem.H == 8)
    assert bare.key == Cell(method="softmax.sdpa", problem=Problem(H=8, N=64, causal=True)).key


def test_configurations_are_an_axis_and_a_condition_may_ask_for_one() -> None:
    cells = expand(suite(model={"config": ["llama-10m", "gpt2-10m"], "own_every": [0, 4]}))
    found = {(c.model.config, c.model.own_every, c.problem.kv_heads) for c in cells if c.model}
    assert found == {("llama-10m", 0, 2), ("llama-10m", 4, 2), ("gpt2-10m", 0, 4), ("gpt2-10m", 4, 4)}
    methods = [{"name": "softmax.sdpa", "when": "config == 'gpt2-10m'"}]
    cells = expand(suite(model={"config": ["llama-10m", "gpt2-10m"]}, methods=methods))
    assert {c.model.config for c in cells if c.model} == {"gpt2-10m"}


@pytest.mark.parametrize(
    ("workload", "call"),
    [("model_prefill", Workload.FORWARD), ("model_decode", Workload.DECODE), ("model_train", Workload.FORWARD_BACKWARD)],
)
def test_the_method_of_a_model_is_asked_about_its_bare_calls(workload: str, call: Workload) -> None:
    (cell,) = expand(suite(axes={"N": 64, "causal": True}, workloads=[workload]))
    assert (cell.call.workload, cell.call.model) == (call, None)


@pytest.mark.parametrize("config", SHIPPED)
def test_a_shipped_configuration_has_room_for_the_lengths_of_its_suite(config: str) -> None:
    sizes = sizes_of(config)
    assert sizes.positions >= 2**16
    assert sizes.heads % sizes.kv_heads == 0


def test_a_configuration_is_read_by_its_path_its_folder_and_its_name(tmp_path: Path) -> None:
    numbers = {"hidden_size": 48, "num_attention_heads": 3, "num_hidden_layers": 2, "max_position_embeddings": 99}
    file = tmp_path / "config.json"
    file.write_text(json.dumps(numbers))
    assert sizes_of(str(file)) == sizes_of(str(tmp_path)) == Sizes(heads=3, kv_heads=3, head_dim=16, layers=2, positions=99)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"model": {"config": "llama-11m"}}, "no model 'llama-11m': write one of gpt2-10m, .*llama-10m.* or the path"),
        ({"axes": {"N": 64}}, "set causal: true"),
        ({"axes": {"N": 2**17, "causal": True}}, "65536 positions, which are fewer than N=131072"),
        ({"axes": {"N": 64, "causal": True, "padding": 0.5}}, "without padding"),
        ({"model": None}, r"model: \{config: llama-10m\}"),
    ],
)
def test_a_model_that_cannot_be_is_refused_before_anything_runs(changes: dict[str, Any], says: str) -> None:
    with pytest.raises((SuiteError, ModelError, ValueError), match=says):
        expand(suite(**changes))


@pytest.mark.parametrize(
    ("text", "says"), [("{", "cannot be read"), ("[]", "has to give"), ('{"hidden_size": 8}', "has to give")]
)
def test_a_file_that_is_no_configuration_is_named(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "odd.json"
    file.write_text(text)
    with pytest.raises(ModelError, match=f"odd.json.*{says}"):
        sizes_of(str(file))
