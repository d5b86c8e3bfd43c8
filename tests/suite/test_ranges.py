"""How lengths are written: 512, 2^9, 2^9..2^16, or a list of these."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from attnbench.schema.suite import Axes


def lengths(value: object) -> tuple[int, ...]:
    return Axes.model_validate({"N": value}).N


@given(st.integers(1, 2**24), st.integers(1, 2**24), st.integers(0, 24), st.integers(0, 24))
def test_a_range_doubles_from_its_start_and_never_passes_its_end(a: int, b: int, x: int, y: int) -> None:
    low, high = sorted((a, b))
    got = lengths(f"{low}..{high}")
    assert got[0] == low
    assert all(later == 2 * earlier for earlier, later in pairwise(got))
    assert got[-1] <= high < 2 * got[-1]
    low, high = sorted((x, y))
    assert lengths(f"2^{low}..2^{high}") == tuple(2**k for k in range(low, high + 1))


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (512, (512,)),
        ("512", (512,)),
        ("2^9", (512,)),
        (" 2 ^ 9 ", (512,)),
        ("3^2", (9,)),
        ("2^9..512", (512,)),
        ("3..20", (3, 6, 12)),
        (["2^3..2^5", 7, "2^6", "9"], (8, 16, 32, 7, 64, 9)),
    ],
)
def test_a_value_is_one_length_or_several(value: object, want: tuple[int, ...]) -> None:
    assert lengths(value) == want


@pytest.mark.parametrize(
    ("says", "values"),
    [
        (
            r"is not a number; write 512, 2\^9, or a range 2\^9\.\.2\^16",
            ["2^9-2^12", "2**9", "2^9..", "..2^9", "1..2..3", "", "x", "-2", "1e3", "2^^3", "2^9, 2^10", ["x"]],
        ),
        ("is empty; write it from low to high", ["2^12..2^9", "0..4", "8..0"]),
        # before it is computed
        (r"is too large; numbers go up to 2\^24", ["2^41", "2^999999999", "9^40", "1^99", "9999999999999", "2^9..2^41"]),
    ],
    ids=["no length", "an empty range", "beyond reason"],
)
def test_what_is_no_length_says_what_would_be(says: str, values: list[object]) -> None:
    for value in values:
        with pytest.raises(ValidationError, match=says):
            lengths(value)


@pytest.mark.parametrize("value", [0, -1, 1.5, True, None, [None], [[1]], {"a": 1}, 2**24 + 1, "0", "0^3"])
def test_a_length_is_a_whole_number_of_at_least_one(value: object) -> None:
    with pytest.raises(ValidationError):
        lengths(value)


def test_axes_that_every_problem_needs_are_not_empty() -> None:
    for axis in ("H", "D", "dtype", "causal", "inputs", "allocator", "matmul_precision", "clock"):
        with pytest.raises(ValidationError, match=axis):
            Axes.model_validate({"N": 8, axis: []})
