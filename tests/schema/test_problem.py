"""Shapes: what follows from what, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from attnbench.schema.problem import DType, Problem


def test_the_value_width_follows_the_query_width() -> None:
    assert Problem(N=8, D=32).M == 32
    assert Problem(N=8).M == Problem(N=8).D == 64
    assert Problem(N=8, D=32, M=16).M == 16


def test_heads_of_keys_follow_the_heads_of_queries() -> None:
    assert Problem(N=8, H=6).kv_heads == 6
    assert Problem(N=8).kv_heads == Problem(N=8).H == 8
    assert Problem(N=8, H=6, kv_heads=2).kv_heads == 2


@pytest.mark.parametrize("field", ["B", "H", "N", "D", "M", "kv_heads"])
@pytest.mark.parametrize("value", [0, -1, 1.0, "8", True, None])
def test_a_dimension_is_a_whole_number_of_at_least_one(field: str, value: object) -> None:
    with pytest.raises(ValidationError, match=field):
        Problem(**{"N": 8, field: value})


def test_heads_of_keys_must_divide_the_heads_of_queries() -> None:
    with pytest.raises(ValidationError, match="kv_heads=3 must divide H=8"):
        Problem(N=8, H=8, kv_heads=3)


@pytest.mark.parametrize("wrong", [{}, {"N": 8, "S": 8}, {"N": 8, "dtype": "int8"}, {"N": 8, "causal": 1}])
def test_missing_unknown_and_mistyped_fields_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Problem(**wrong)


@pytest.mark.parametrize("padding", [1.0, -0.1, "0.5", True])
def test_padding_is_a_share_below_one(padding: object) -> None:
    with pytest.raises(ValidationError, match="padding"):
        Problem(N=8, padding=padding)


def test_padding_shortens_the_rows_evenly_down_to_its_share() -> None:
    assert Problem(N=64, B=4, padding=0.5).lengths == (56, 48, 40, 32)
    assert Problem(N=64, B=1, padding=0.25).lengths == (48,)
    assert Problem(N=64, B=3).lengths == (64, 64, 64)


@given(st.integers(1, 300), st.integers(1, 20), st.floats(0, 1, exclude_max=True))
def test_every_row_keeps_a_key_and_no_row_is_longer_than_the_one_before(N: int, B: int, padding: float) -> None:
    lengths = Problem(N=N, B=B, padding=padding).lengths
    assert len(lengths) == B
    assert list(lengths) == sorted(lengths, reverse=True)
    assert all(1 <= length <= N for length in lengths)


def test_a_problem_cannot_be_changed() -> None:
    problem = Problem(N=8)
    with pytest.raises(ValidationError, match="frozen"):
        problem.N = 9  # type: ignore[misc]


def test_an_element_type_knows_its_size() -> None:
    assert {dtype.value: dtype.bytes for dtype in DType} == {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}


def test_a_problem_survives_json() -> None:
    problem = Problem(B=2, H=6, N=7, D=5, M=3, kv_heads=2, dtype="float16", causal=True, padding=0.25)
    assert Problem.model_validate_json(problem.model_dump_json()) == problem
