"""Which rows are looked at: enough, spread, and no two times the same."""

import random

from hypothesis import given
from hypothesis import strategies as st

from attnbench.workloads.places import ROWS, last_tokens, places, tokens

B, H = st.integers(1, 9), st.integers(1, 12)
N, SPAN = st.integers(1, 5000), st.integers(1, 600)


@given(N=N, span=SPAN, count=st.integers(2, 70), seed=st.integers(), first=st.integers(0, 4999))
def test_tokens_are_as_many_as_asked_for_the_first_and_the_last_among_them(
    N: int, span: int, count: int, seed: int, first: int
) -> None:
    first = min(first, N - 1)
    at = tokens(N, span, count, random.Random(seed), first)
    assert list(at) == sorted(set(at))
    assert len(at) == min(count, N - first)
    assert (at[0], at[-1]) == (first, N - 1)


@given(B=B, H=H, N=N, span=SPAN, seed=st.integers())
def test_places_have_at_least_64_rows_or_all_there_are_and_the_outermost_heads(
    B: int, H: int, N: int, span: int, seed: int
) -> None:
    found = places(B, H, N, span, random.Random(seed))
    assert len({(place.b, place.h) for place in found}) == len(found)
    assert {(0, 0), (B - 1, H - 1)} <= {(place.b, place.h) for place in found}
    assert all(0 <= place.b < B and 0 <= place.h < H for place in found)
    rows = sum(len(place.at) for place in found)
    assert rows >= min(ROWS, len(found) * N)


@given(B=B, H=H, N=N, seed=st.integers())
def test_of_a_step_only_the_last_token_is_looked_at(B: int, H: int, N: int, seed: int) -> None:
    found = last_tokens(B, H, N, random.Random(seed))
    assert {place.at for place in found} == {(N - 1,)}
    assert len({(place.b, place.h) for place in found}) == len(found) <= ROWS
    assert len({place.b for place in found}) <= 4


def test_half_of_the_tokens_lie_beside_borders() -> None:
    at = tokens(100_000, 100, 60, random.Random(1))
    assert sum(min(token % 100, -token % 100) <= 1 for token in at) >= 25


def test_nobody_knows_beforehand_which_place_comes_first() -> None:
    assert len({places(4, 4, 64, 8, random.Random(seed))[0] for seed in range(20)}) > 5
