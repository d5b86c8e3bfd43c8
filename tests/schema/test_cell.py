"""Cells and their shapes: what follows from what, what is refused, and the key under which numbers are found for years."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from attnbench.schema.cell import Cell, Precision, Workload
from attnbench.schema.noun import Scalar
from attnbench.schema.problem import DType, Problem

CELL = Cell(
    method="linear.chunked",
    params={"chunk": 32},
    problem=Problem(B=2, H=4, N=256, D=64, causal=True, dtype="float64"),
    workload=Workload.FORWARD_BACKWARD,
)
# stored results are found by this key: where it changes, none of them is found again
KEY = "ae909c1a7b021bbf478142d9cb5ace8302fb635bdefc9f6e4e658577c933709e"
OTHER_CELL: dict[str, object] = {
    **{"method": "linear.full", "problem": Problem(N=8), "workload": "decode", "params": {"chunk": 64}, "device": "cuda"},
    **{"allocator": "system", "matmul_precision": "high", "clock": "wall", "batch": "largest", "inputs": "peaked"},
    **{"recording": "x.safetensors", "scale": 0.25, "new_tokens": 4},
    **{"training": {"task": "copy"}, "model": {"config": "llama-10m"}},
}
OTHER_PROBLEM: dict[str, object] = {
    **{"B": 1, "H": 8, "N": 512, "D": 32, "M": 8, "kv_heads": 2, "dtype": "float32", "causal": False, "padding": 0.5},
    "documents": (256, 256),
}


def test_the_key_of_a_cell_is_the_one_that_was_always_written_also_in_another_process() -> None:
    code = "import sys; from attnbench.schema.cell import Cell; print(Cell.model_validate_json(sys.stdin.read()).key)"
    asked = [sys.executable, "-c", code]
    done = subprocess.run(asked, input=CELL.model_dump_json(), capture_output=True, text=True, check=True)
    assert CELL.key == done.stdout.strip() == KEY


def test_writing_a_default_out_does_not_change_the_key() -> None:
    plain = Cell(method="m", problem=Problem(N=64))
    written = Cell.model_validate_json(plain.model_dump_json())
    assert (written.model_fields_set, written.key) == (set(Cell.model_fields), plain.key)
    assert Cell(method="m", problem=Problem(N=64, M=64, kv_heads=8)).key == plain.key
    # keys from before there were models
    assert plain.canonical() == {"method": "m", "problem": {"N": 64}}
    # like GPUs of one machine count as one
    assert len({plain.model_copy(update={"device": gpu}).key for gpu in ("cuda:0", "cuda:1")}) == 1


def test_every_field_of_a_cell_and_of_its_problem_changes_the_key() -> None:
    assert (set(OTHER_CELL), set(OTHER_PROBLEM)) == (set(Cell.model_fields), set(Problem.model_fields))
    others = {field: Cell.model_validate({**dict(CELL), field: other}) for field, other in OTHER_CELL.items()}
    for field, other in OTHER_PROBLEM.items():
        others[field] = CELL.model_copy(update={"problem": CELL.problem.model_copy(update={field: other})})
    others["training.updates"] = Cell.model_validate({**dict(CELL), "training": {"task": "copy", "updates": 9}})
    assert len({KEY, *(cell.key for cell in others.values())}) == 1 + len(others), others
    # a copy has the key of its own fields
    assert CELL.model_copy(update={"method": "linear.full"}).key == others["method"].key


def test_the_order_of_parameters_does_not_matter_but_their_type_does() -> None:
    def key(**params: Scalar) -> str:
        return Cell(method="m", problem=Problem(N=8), params=params).key

    assert key(a=1, b=2) == key(b=2, a=1)
    assert len({key(a=1), key(a=1.0), key(a=True), key(a="1")}) == 4


def test_the_label_shows_the_parameters_in_order_and_the_kind_of_a_device_has_no_index() -> None:
    plain = Cell(method="m", problem=Problem(N=8))
    assert plain.label == "m"
    assert plain.model_copy(update={"params": {"b": 1, "a": "x"}}).label == "m(a=x, b=1)"
    kinds = {device: plain.model_copy(update={"device": device}).device_kind for device in ("cpu", "cuda", "cuda:1")}
    assert kinds == {"cpu": "cpu", "cuda": "cuda", "cuda:1": "cuda"}


@pytest.mark.parametrize(
    ("dtype", "precision", "ceiling"),
    [("float32", "highest", "float32"), ("float32", "high", "float32, matmul high"), ("bfloat16", "high", "bfloat16")],
)
def test_float32_whose_products_may_be_rounded_has_a_roof_of_its_own(dtype: str, precision: str, ceiling: str) -> None:
    assert Cell(method="m", problem=Problem(N=8, dtype=dtype), matmul_precision=Precision(precision)).ceiling == ceiling


@pytest.mark.parametrize(
    ("workload", "call"),
    [
        *(("train", "forward_backward"), ("generate", "forward")),
        *(("model_prefill", "forward"), ("model_decode", "decode"), ("model_train", "forward_backward")),
    ],
)
def test_a_method_is_asked_about_its_own_call_and_knows_of_no_model(workload: str, call: str) -> None:
    of = {"training": {"task": "copy"}} if workload in {"train", "generate"} else {"model": {"config": "llama-10m"}}
    asked = Cell.model_validate({"method": "m", "problem": Problem(N=8, causal=True), "workload": workload, **of}).call
    assert (asked.workload.value, asked.training, asked.model) == (call, None, None)


def test_widths_of_values_and_heads_of_keys_follow_those_of_queries_where_they_are_not_given() -> None:
    assert (Problem(N=8).D, Problem(N=8).M, Problem(N=8).H, Problem(N=8).kv_heads) == (64, 64, 8, 8)
    assert (Problem(N=8, D=32).M, Problem(N=8, H=6).kv_heads) == (32, 6)
    assert (Problem(N=8, D=32, M=16).M, Problem(N=8, H=6, kv_heads=2).kv_heads) == (16, 2)


@pytest.mark.parametrize("field", ["B", "H", "N", "D", "M", "kv_heads"])
@pytest.mark.parametrize("value", [0, -1, 1.0, "8", True, None])
def test_a_dimension_is_a_whole_number_of_at_least_one(field: str, value: object) -> None:
    with pytest.raises(ValidationError, match=field):
        Problem(**{"N": 8, field: value})


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({}, "N"),
        ({"N": 8, "S": 8}, "S"),
        ({"N": 8, "dtype": "int8"}, "dtype"),
        ({"N": 8, "causal": 1}, "causal"),
        ({"N": 8, "H": 8, "kv_heads": 3}, "kv_heads=3 must divide H=8"),
        *(({"N": 8, "padding": padding}, "padding") for padding in (1.0, -0.1, "0.5", True)),
    ],
)
def test_fields_that_are_missing_unknown_mistyped_or_do_not_fit_are_refused(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        Problem(**wrong)


def test_padding_shortens_the_rows_evenly_down_to_its_share() -> None:
    assert Problem(N=64, B=4, padding=0.5).lengths == (56, 48, 40, 32)
    assert Problem(N=64, B=1, padding=0.25).lengths == (48,)
    assert Problem(N=64, B=3).lengths == (64, 64, 64)


@given(st.integers(1, 300), st.integers(1, 20), st.floats(0, 1, exclude_max=True))
def test_every_row_keeps_a_key_and_no_row_is_longer_than_the_one_before(N: int, B: int, padding: float) -> None:
    lengths = Problem(N=N, B=B, padding=padding).lengths
    assert (len(lengths), list(lengths)) == (B, sorted(lengths, reverse=True))
    assert all(1 <= length <= N for length in lengths)


def test_a_problem_cannot_be_changed_and_its_element_type_knows_its_size() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Problem(N=8).N = 9  # type: ignore[misc]
    assert {dtype.value: dtype.bytes for dtype in DType} == {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
