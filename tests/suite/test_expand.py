"""From a suite to its cells, and the configurations of whole models, which say their heads."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbench.schema.cell import Batch, Cell, Workload
from attnbench.schema.model import Model
from attnbench.schema.problem import Problem
from attnbench.schema.suite import Suite
from attnbench.session.lanes import Shard
from attnbench.suite.expand import Bundles, TooManyCellsError, expand
from attnbench.suite.load import SuiteError, load
from attnbench.suite.models import ModelError, Sizes, sizes_of

MODEL: dict[str, Any] = {"axes": {"N": 8, "H": 2, "D": 4, "causal": True}, "training": {"task": "copy"}}


def suite(device: str = "cpu", **fields: Any) -> Suite:
    base = {"name": "s", "axes": {"N": [8]}, "methods": ["m"]}
    return Suite.model_validate({**base, **fields}, strict=False).resolved(device)


def cells(device: str = "cpu", **fields: Any) -> list[Cell]:
    return expand(suite(device, **fields))


def test_lengths_come_small_to_large_however_they_are_written_and_what_is_not_given_follows() -> None:
    got = cells(axes={"N": [64, 8, 32], "D": [4, 8], "H": [2, 3]})
    assert [cell.problem.N for cell in got] == [8] * 4 + [32] * 4 + [64] * 4
    shapes = {(c.problem.B, c.problem.D, c.problem.M, c.problem.H, c.problem.kv_heads) for c in got}
    assert shapes == {(1, D, D, H, H) for D in (4, 8) for H in (2, 3)}


def test_a_key_of_a_device_that_has_no_value_changes_nothing() -> None:
    empty = dict.fromkeys(("replicates", "workloads", "methods", "training", "model"))
    assert suite(**MODEL, on={"cpu": empty}) == suite(**MODEL)


def test_all_methods_of_a_shape_stand_together() -> None:
    got = cells(axes={"N": [16, 8], "causal": [True, False]}, workloads=["forward", "forward_backward"], methods=["b", "a"])
    shapes = {method: [(c.problem, c.workload) for c in got if c.method == method] for method in ("a", "b")}
    assert shapes["a"] == shapes["b"]
    assert [cell.method for cell in got] == ["b", "a"] * 8


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(1, 2**20), min_size=1, max_size=5, unique=True), st.integers(1, 2**20))
def test_tokens_divide_the_batch_by_the_length_and_leave_at_least_one(lengths: list[int], tokens: int) -> None:
    got = [(cell.problem.N, cell.problem.B) for cell in cells(axes={"N": lengths, "tokens": tokens})]
    assert got == [(N, max(1, tokens // N)) for N in sorted(lengths)]


@pytest.mark.parametrize(
    ("written", "batches"),
    [
        ("max", [(1, Batch.LARGEST)]),
        ([1, "max"], [(1, Batch.FIXED), (1, Batch.LARGEST)]),
        (["max", "2^1..2^2"], [(1, Batch.LARGEST), (2, Batch.FIXED), (4, Batch.FIXED)]),
    ],
)
def test_the_largest_batch_is_searched_for_from_one_on(written: object, batches: list[tuple[int, Batch]]) -> None:
    got = cells(axes={"N": [8], "B": written})
    assert [(cell.problem.B, cell.batch) for cell in got] == batches
    assert len({cell.key for cell in got}) == len(got)


@pytest.mark.parametrize(
    ("when", "holds"),
    [
        ("causal", lambda c: c.problem.causal),
        ("padding > 0", lambda c: c.problem.padding > 0),
        ("batch == 'largest'", lambda c: c.batch is Batch.LARGEST),
        ("workload == 'decode'", lambda c: c.workload is Workload.DECODE),
        ("device == 'cuda' and not causal", lambda c: not c.problem.causal),
        ("dtype == 'float32' and B == 1 and H == kv_heads and D == M and causal", lambda c: c.problem.causal),
    ],
)
def test_a_condition_may_speak_of_every_axis(when: str, holds: Callable[[Cell], bool]) -> None:
    axes = {"N": [8], "causal": [True, False], "padding": [0.0, 0.5], "B": [1, "max"]}
    got = cells("cuda:1", axes=axes, workloads=["forward", "decode"], methods=["a", {"name": "b", "when": when}])
    everywhere = [cell.model_copy(update={"method": "b"}) for cell in got if cell.method == "a"]
    assert len(everywhere) == 16
    assert [cell for cell in got if cell.method == "b"] == [cell for cell in everywhere if holds(cell)]


def test_inputs_and_scales_are_axes_and_only_what_is_verified_has_new_tokens() -> None:
    got = cells(axes={"N": 8, "inputs": ["peaked", "recorded"], "recording": "x.safetensors", "scale": [0.25, 1.0]})
    found = [(c.inputs.value, c.recording, c.scale) for c in got]
    assert found == [(kind, "x.safetensors", scale) for kind in ("peaked", "recorded") for scale in (0.25, 1.0)]
    got = cells(axes={"N": 64, "causal": True, "new_tokens": [4, 16, 4]}, workloads=["prefill", "verify", "decode"])
    assert [(c.workload.value, c.new_tokens) for c in got] == [("prefill", 1), ("verify", 4), ("verify", 16), ("decode", 1)]


def test_every_axis_multiplies() -> None:
    axes = {
        **{"N": [8, 16], "B": [1, 2], "H": [4, 8], "D": [4, 8], "M": [4, 8], "kv_heads": [2, 4]},
        **{"dtype": ["float32", "float16"], "causal": [True, False], "padding": [0.0, 0.5], "clock": ["default", "wall"]},
        **{"allocator": ["retain", "system"], "matmul_precision": ["highest", "high"]},
    }
    got = cells(axes=axes, workloads=["forward", "forward_backward"])
    assert len(got) == len({cell.key for cell in got}) == 2**13


def test_parameters_that_are_lists_are_swept_and_a_condition_filters_its_own_entry_only() -> None:
    method = {"name": "m", "params": {"chunk": [4, 8], "mode": ["a", "b"], "eps": 1e-6}}
    swept = [{"chunk": chunk, "mode": mode, "eps": 1e-6} for chunk in (4, 8) for mode in ("a", "b")]
    assert [cell.params for cell in cells(methods=[method])] == swept
    few, one = {"name": "m", "params": {"c": [4, 16]}, "when": "c <= N"}, {"name": "m", "params": {"c": 2}, "when": "N > 8"}
    got = [(c.problem.N, c.params.get("c")) for c in cells(axes={"N": [8, 16]}, methods=[few, one, "m"])]
    assert got == [(8, 4), (8, None), (16, 4), (16, 16), (16, 2), (16, None)]
    assert len(cells(axes={"N": 8, "H": [4, 8], "kv_heads": 8}, methods=[{"name": "m", "when": "kv_heads <= H"}])) == 1


def test_a_cell_that_is_listed_twice_is_measured_once() -> None:
    got = cells(axes={"N": [8, 8, 16]}, methods=["m", "m", {"name": "m", "params": {"a": [1, 1]}}])
    assert [(cell.problem.N, cell.label) for cell in got] == [(8, "m"), (8, "m(a=1)"), (16, "m"), (16, "m(a=1)")]
    # also where its name asks for what an axis puts beside it
    both = cells(axes={"N": 8, "packed": [False, True]}, methods=["m", "m+packed", "m+compile"])
    assert [cell.method for cell in both] == ["m", "m+packed", "m+compile", "m+packed+compile"]
    when = {"name": "m", "when": "packed and not compile and clock == 'wall' and allocator == 'retain'"}
    axes = {"N": 8, "packed": [False, True], "clock": ["wall", "cold"]}
    assert [cell.method for cell in cells(axes=axes, methods=[when])] == ["m+packed"]


AXES: dict[str, st.SearchStrategy[object]] = {
    "N": st.lists(st.integers(1, 64), min_size=1, max_size=3),
    "tokens": st.lists(st.integers(1, 64), min_size=1, max_size=3),
    "D": st.lists(st.integers(1, 3), min_size=1, max_size=3),
    "causal": st.lists(st.booleans(), min_size=1, max_size=2),
    "scale": st.lists(st.sampled_from([1.0, 2.0]), min_size=1, max_size=2),
}


@settings(deadline=None, max_examples=60)
@given(st.fixed_dictionaries(AXES), st.integers(1, 9))
def test_shares_of_a_suite_have_all_its_cells_and_none_twice(axes: dict[str, object], of: int) -> None:
    """Also where values are listed twice, and where several numbers of tokens make one batch."""
    whole = suite(axes=axes, workloads=["forward", "generate"], training={"layers": [1, 1, 2]}, methods=["a", "b", "a"])
    bundles = Bundles(whole)
    shares = [range(share, len(bundles), of) for share in range(min(of, len(bundles)))]
    # a share without any cell is refused
    found = [expand(whole, share) for share in shares if any(bundles[number] for number in share)]
    keys = [cell.key for each in found for cell in each]
    assert len(keys) == len(set(keys))
    assert set(keys) == {cell.key for cell in expand(whole)}


def test_a_share_of_ten_million_cells_is_made_without_the_others() -> None:
    many = suite(axes={"N": list(range(1, 10_001)), "D": list(range(1, 1001))})
    assert len(Bundles(many)) == 10_000_000
    with pytest.raises(TooManyCellsError, match="measure shares of it, as --shard 1/100"):
        expand(many)
    found = Shard(7, 1000).expand(many)
    assert len(found) == 10_000
    assert (found[0].problem.N, found[0].problem.D, found[-1].problem.N) == (1, 7, 10_000)


def test_a_thousand_million_cells_are_refused_before_any_is_built() -> None:
    many = list(range(1, 1001))
    with pytest.raises(TooManyCellsError, match=r"suite 's' has 1,000,000,000 cells; at most 100,000 make sense"):
        cells(axes={"N": many, "H": many, "D": many})
    with pytest.raises(TooManyCellsError, match="1,000,000,000 cells"):
        cells(methods=[{"name": "m", "params": {"a": many, "b": many, "c": many}}])


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"axes": {"N": [8], "H": [8, 4], "kv_heads": [8]}}, r"^suite 's': axes: kv_heads=8 must divide H=4$"),
        (
            {"methods": [{"name": "m", "when": "1 // (N - 8) > 1"}]},
            r"^suite 's': methods.when: '1 // \(N - 8\)': integer division",
        ),
        ({"methods": [{"name": "m", "when": "N > 8"}]}, "no cell is left"),
        ({"methods": [{"name": "m", "params": {"a": math.nan}}]}, "a=nan: it is no finite number"),
        ({"axes": {"N": 8, "scale": math.inf}}, "scale=inf: it is no finite number"),
        ({"axes": {"N": 1, "tokens": 2**24}}, r"^suite 's': axes: B: input .* equal to 1048576; it is 16777216$"),
        ({**MODEL, "axes": {"N": 9, "causal": True}, "workloads": ["train"]}, "copy repeats the first half of .*; N=9 must"),
        ({**MODEL, "workloads": ["generate"], "training": {"softmax_every": 1}}, "4 layers are no hybrid; set 0, or from 2"),
        ({**MODEL, "workloads": ["train"], "training": {"softmax_every": 5}}, "with softmax_every=5, 4 layers are no hybrid"),
    ],
)
def test_what_no_cells_can_be_made_of_is_an_error_in_words(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(SuiteError, match=says):
        cells(**fields)


def test_an_override_changes_only_the_keys_that_are_written_and_on_no_other_device() -> None:
    override = {"axes": {"H": [2]}, "budget": {"seconds": 1.0}, "replicates": 9}
    fields: dict[str, Any] = {"axes": {"N": [8], "H": [4], "D": [16]}, "budget": {"memory": 0.5}, "on": {"cuda": override}}
    got = suite("cuda:1", **fields)
    assert (got.axes.N, got.axes.H, got.axes.D) == ((8,), (2,), (16,))
    assert (got.budget.seconds, got.budget.memory, got.replicates, got.device) == (1.0, 0.5, 9, "cuda:1")
    fields.pop("on")
    assert suite("cpu", **fields, on={"cuda": override}) == suite("cpu", **fields)


@pytest.mark.parametrize(
    ("base", "over", "batches"),
    [
        ({"tokens": 64}, {"B": 2}, {(2, Batch.FIXED)}),
        ({"B": 2}, {"tokens": 64}, {(8, Batch.FIXED), (4, Batch.FIXED)}),
        ({"B": [1, "max"]}, {"B": "max"}, {(1, Batch.LARGEST)}),
        ({"B": [1, "max"]}, {"B": 2}, {(2, Batch.FIXED)}),
    ],
)
def test_one_batch_rule_replaces_the_other(base: dict[str, Any], over: dict[str, Any], batches: set[tuple[int, Batch]]) -> None:
    assert {(cell.problem.B, cell.batch) for cell in cells(axes={"N": [8, 16], **base}, on={"cpu": {"axes": over}})} == batches


def test_an_override_may_replace_methods_and_workloads_and_changes_only_what_it_writes_of_the_model() -> None:
    got = cells(on={"cpu": {"methods": ["x", "y"], "workloads": ["forward_backward"]}})
    assert [(cell.method, cell.workload) for cell in got] == [(m, Workload.FORWARD_BACKWARD) for m in ("x", "y")]
    base = {**MODEL, "workloads": ["train"], "training": {"task": "induction", "layers": 4, "updates": 9}}
    (cell,) = cells(**base, on={"cpu": {"training": {"layers": 2}}})
    assert cell.training
    assert (cell.training.task.value, cell.training.layers, cell.training.updates) == ("induction", 2, 9)


def test_what_is_reported_and_how_often_it_is_repeated_is_no_part_of_a_suite_s_digest() -> None:
    suite = load("quick").suite.resolved("cpu")
    same = suite.model_copy(update={"replicates": 7, "source": "x", "device": "cuda:1"})
    assert suite.digest == same.digest != suite.model_copy(update={"seed": 1}).digest


def test_a_workload_with_a_model_takes_every_model_and_the_others_none() -> None:
    got = cells(**{**MODEL, "workloads": ["forward", "train"], "training": {"task": ["copy", "induction"], "layers": [1, 2]}})
    models = [(c.workload, c.training.task.value, c.training.layers) for c in got if c.training]
    assert models == [(Workload.TRAIN, task, layers) for task in ("copy", "induction") for layers in (1, 2)]
    assert [c.workload for c in got if c.training is None] == [Workload.FORWARD]


def test_a_model_that_only_generates_may_have_any_length_and_a_condition_keeps_away_what_could_not_be_trained() -> None:
    (cell,) = cells(**{**MODEL, "workloads": ["generate"], "axes": {"N": 9, "causal": True}, "training": {"task": "pixels"}})
    assert cell.problem.N == 9
    axes, methods = {"N": [8, 9], "causal": True}, [{"name": "m", "when": "N % 2 == 0 and layers == 2"}]
    (cell,) = cells(**{**MODEL, "workloads": ["train"], "axes": axes, "methods": methods, "training": {"layers": [1, 2]}})
    assert (cell.problem.N, cell.training and cell.training.layers) == (8, 2)


WHOLE: dict[str, Any] = {"axes": {"N": [64, 128], "causal": True}, "workloads": ["model_prefill"]}
WHOLE |= {"model": {"config": "llama-10m"}, "methods": ["softmax.sdpa"]}


def test_a_model_says_its_heads() -> None:
    got = cells(**WHOLE)
    heads = {(c.problem.N, c.problem.H, c.problem.kv_heads, c.problem.D, c.problem.M) for c in got}
    assert heads == {(64, 4, 2, 64, 64), (128, 4, 2, 64, 64)}
    assert {c.model for c in got} == {Model(config="llama-10m")}


def test_bare_attentions_beside_a_model_keep_the_heads_of_the_axes_and_their_keys() -> None:
    got = cells(**WHOLE | {"axes": {"N": 64, "H": [2, 8], "causal": True}, "workloads": ["forward", "model_decode"]})
    found = sorted((c.workload.value, c.problem.H, c.problem.kv_heads) for c in got)
    assert found == [("forward", 2, 2), ("forward", 8, 8), ("model_decode", 4, 2)]
    bare = next(c for c in got if c.problem.H == 8)
    assert bare.key == Cell(method="softmax.sdpa", problem=Problem(H=8, N=64, causal=True)).key


def test_configurations_are_an_axis_and_a_condition_may_ask_for_one() -> None:
    got = cells(**WHOLE | {"model": {"config": ["llama-10m", "gpt2-10m"], "own_every": [0, 4]}})
    found = {(c.model.config, c.model.own_every, c.problem.kv_heads) for c in got if c.model}
    assert found == {("llama-10m", 0, 2), ("llama-10m", 4, 2), ("gpt2-10m", 0, 4), ("gpt2-10m", 4, 4)}
    methods = [{"name": "softmax.sdpa", "when": "config == 'gpt2-10m'"}]
    got = cells(**WHOLE | {"model": {"config": ["llama-10m", "gpt2-10m"]}, "methods": methods})
    assert {c.model.config for c in got if c.model} == {"gpt2-10m"}


def test_a_configuration_is_read_by_its_path_its_folder_and_its_name(tmp_path: Path) -> None:
    numbers = {"hidden_size": 48, "num_attention_heads": 3, "num_hidden_layers": 2, "n_positions": 99, "multi_query": True}
    file = tmp_path / "config.json"
    file.write_text(json.dumps(numbers))
    assert sizes_of(str(file)) == sizes_of(str(tmp_path)) == Sizes(heads=3, kv_heads=1, head_dim=16, layers=2, positions=99)
    with pytest.raises(SuiteError, match="of other sizes than llama-10m"):
        cells(**WHOLE | {"model": {"config": "llama-10m", "weights": str(tmp_path)}})
    for i, text in enumerate((json.dumps(numbers | {"num_attention_heads": 0}), "[" * 10**5, '{"num_attention_heads": 1e400}')):
        (other := tmp_path / f"{i}.json").write_text(text)
        with pytest.raises(ModelError, match=f"{i}.json cannot be read as the config.json of a model"):
            sizes_of(str(other))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"model": {"config": "llama-10m", "weights": "nowhere"}}, "weights='nowhere' is no folder with a config.json"),
        ({"workloads": ["model_quality"], "model": {"config": "llama-1m", "weights": "x", "learnt": 9}}, "learnt=9 is of"),
        ({"model": {"config": "llama-11m"}}, "no model 'llama-11m': write one of gpt2-10m, .*llama-10m.* or the path"),
        ({"axes": {"N": 64}}, "set causal: true"),
        ({"axes": {"N": 2**17, "causal": True}}, "65536 positions, which are fewer than N=131072"),
        ({"axes": {"N": 64, "causal": True, "padding": 0.5}}, "without padding"),
        ({"model": None}, r"model: \{config: llama-10m\}"),
        ({"model": {"config": "llama-10m", "own_every": 9}}, "with own_every=9, 8 layers are no hybrid"),
    ],
)
def test_a_model_that_cannot_be_is_refused_before_anything_runs(changes: dict[str, Any], says: str) -> None:
    with pytest.raises((SuiteError, ModelError, ValueError), match=says):
        cells(**WHOLE | changes)


@pytest.mark.parametrize(
    ("text", "says"), [("{", "cannot be read"), ("[]", "has to give"), ('{"hidden_size": 8}', "has to give")]
)
def test_a_file_that_is_no_configuration_is_named(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "odd.json"
    file.write_text(text)
    with pytest.raises(ModelError, match=f"odd.json.*{says}"):
        sizes_of(str(file))
