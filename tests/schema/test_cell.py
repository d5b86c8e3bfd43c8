"""The key of a cell: the name under which its numbers are found again, for years."""

import subprocess
import sys

import pytest

from attnbench.schema.cell import Allocator, Batch, Cell, ClockMode, Inputs, Precision, Workload
from attnbench.schema.noun import Scalar
from attnbench.schema.problem import Problem

CELL = Cell(
    method="linear.chunked",
    params={"chunk": 32},
    problem=Problem(B=2, H=4, N=256, D=64, causal=True, dtype="float64"),
    workload=Workload.FORWARD_BACKWARD,
)
# stored results are found by this key: where it changes, none of them is found again
KEY = "ae909c1a7b021bbf478142d9cb5ace8302fb635bdefc9f6e4e658577c933709e"
OTHER_CELL: dict[str, object] = {
    "method": "linear.full",
    "problem": Problem(N=8),
    "workload": "decode",
    "params": {"chunk": 64},
    "device": "cuda",
    "allocator": "system",
    "matmul_precision": "high",
    "clock": "wall",
    "batch": "largest",
    "inputs": "peaked",
    "recording": "x.safetensors",
    "scale": 0.25,
    "new_tokens": 4,
    "training": {"task": "copy"},
    "model": {"config": "llama-10m"},
}
OTHER_PROBLEM = {"B": 1, "H": 8, "N": 512, "D": 32, "M": 8, "kv_heads": 2, "dtype": "float32", "causal": False, "padding": 0.5}
OTHER_PROBLEM["documents"] = (256, 256)


def test_the_key_of_a_cell_is_the_one_that_was_always_written() -> None:
    assert CELL.key == KEY


def test_the_key_is_the_same_in_another_process() -> None:
    code = "import sys; from attnbench.schema.cell import Cell; print(Cell.model_validate_json(sys.stdin.read()).key)"
    done = subprocess.run(
        [sys.executable, "-c", code], input=CELL.model_dump_json(), capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == KEY


def test_writing_a_default_out_does_not_change_the_key() -> None:
    written = Cell(
        method="m",
        problem=Problem(B=1, H=8, N=64, D=64, M=64, kv_heads=8, dtype="float32", causal=False, padding=0.0),
        workload=Workload.FORWARD,
        params={},
        device="cpu",
        inputs=Inputs.NORMAL,
        allocator=Allocator.RETAIN,
        matmul_precision=Precision.HIGHEST,
        clock=ClockMode.DEFAULT,
        batch=Batch.FIXED,
    )
    assert written.key == Cell(method="m", problem=Problem(N=64)).key


@pytest.mark.parametrize("workload", list(Workload))
def test_only_decoding_takes_tokens_after_others(workload: Workload) -> None:
    assert workload.decodes is workload.value.startswith(("decode", "verify"))


def test_a_value_width_that_is_given_but_equal_does_not_change_the_key() -> None:
    assert Cell(method="m", problem=Problem(N=8, D=32, M=32)).key == Cell(method="m", problem=Problem(N=8, D=32)).key
    assert Cell(method="m", problem=Problem(N=8, D=32, M=64)).key != Cell(method="m", problem=Problem(N=8, D=32)).key


@pytest.mark.parametrize("field", OTHER_CELL)
def test_every_field_of_a_cell_changes_the_key(field: str) -> None:
    assert Cell.model_validate({**dict(CELL), field: OTHER_CELL[field]}).key != KEY


@pytest.mark.parametrize("field", OTHER_PROBLEM)
def test_every_field_of_a_problem_changes_the_key(field: str) -> None:
    problem = CELL.problem.model_copy(update={field: OTHER_PROBLEM[field]})
    assert CELL.model_copy(update={"problem": problem}).key != KEY


def test_no_field_is_left_out_of_the_two_tests_above() -> None:
    assert set(Cell.model_fields) == set(OTHER_CELL)
    assert set(Problem.model_fields) == set(OTHER_PROBLEM)


def test_the_order_of_parameters_does_not_matter_but_their_type_does() -> None:
    def key(**params: Scalar) -> str:
        return Cell(method="m", problem=Problem(N=8), params=params).key

    assert key(a=1, b=2) == key(b=2, a=1)
    assert len({key(a=1), key(a=1.0), key(a=True), key(a="1")}) == 4


def test_a_copy_has_the_key_of_its_own_fields() -> None:
    copy = CELL.model_copy(update={"method": "linear.full"})
    assert copy.key == Cell.model_validate(dict(copy)).key != KEY


def test_the_label_shows_the_parameters_in_order() -> None:
    assert CELL.label == "linear.chunked(chunk=32)"
    assert Cell(method="m", problem=Problem(N=8)).label == "m"
    assert Cell(method="m", problem=Problem(N=8), params={"b": 1, "a": "x"}).label == "m(a=x, b=1)"


@pytest.mark.parametrize(("device", "kind"), [("cpu", "cpu"), ("cuda", "cuda"), ("cuda:1", "cuda")])
def test_the_kind_of_a_device_has_no_index(device: str, kind: str) -> None:
    assert CELL.model_copy(update={"device": device}).device_kind == kind


@pytest.mark.parametrize(
    ("dtype", "precision", "ceiling"),
    [
        ("float32", "highest", "float32"),
        ("float32", "high", "float32, matmul high"),
        ("bfloat16", "high", "bfloat16"),
        ("float64", "medium", "float64"),
    ],
)
def test_float32_whose_products_may_be_rounded_has_a_roof_of_its_own(dtype: str, precision: str, ceiling: str) -> None:
    cell = Cell(method="m", problem=Problem(N=8, dtype=dtype), matmul_precision=Precision(precision))
    assert cell.ceiling == ceiling
