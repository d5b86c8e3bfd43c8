"""The search for the largest batch: how near it comes, and how few processes it takes."""

from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnbench.schedule.cells import MOST_ROWS
from attnbench.schedule.ledger import largest, next_trial

MOST = st.integers(1, 2**20)


def search(truth: int, most: int, known: dict[int, bool] | None = None) -> dict[int, bool]:
    """All trials, where whatever is at most `truth` fits; no number is tried twice."""
    fits = dict(known or {})
    while (trial := next_trial(fits, most)) is not None:
        assert trial not in fits
        assert 1 <= trial <= most
        fits[trial] = trial <= truth
    return fits


@given(MOST, st.data())
def test_the_largest_is_found_to_one_part_in_sixteen_in_few_trials(most: int, data: st.DataObject) -> None:
    truth = data.draw(st.integers(0, most))
    fits = search(truth, most)
    assert largest(fits) <= truth
    assert truth - largest(fits) < max(1, largest(fits) / 16)
    # by powers of four up to the first that is too large; from a gap of three times the last to a sixteenth of it
    assert len(fits) <= log2(most) / 2 + 2 + 6


def test_the_largest_that_is_ever_tried_takes_nine_trials_where_all_fit() -> None:
    assert list(search(2**30, MOST_ROWS)) == [*(4**i for i in range(8)), MOST_ROWS]
    assert largest(search(2**30, MOST_ROWS)) == MOST_ROWS == 65_535


@pytest.mark.parametrize("most", [1, 2, 16, 2**16])
def test_where_not_even_one_fits_one_is_all_that_is_tried(most: int) -> None:
    assert search(0, most) == {1: False}
    assert largest({1: False}) == 0


@given(st.integers(1, 64))
def test_up_to_sixteen_the_largest_is_found_exactly(truth: int) -> None:
    found = largest(search(truth, 2**16))
    assert found == truth if truth < 32 else truth - found <= 4


@given(MOST, st.data())
def test_a_search_goes_on_from_what_is_known(most: int, data: st.DataObject) -> None:
    truth = data.draw(st.integers(0, most))
    whole = search(truth, most)
    kept = dict(list(whole.items())[: data.draw(st.integers(0, len(whole)))])
    assert search(truth, most, kept) == whole


@given(st.dictionaries(st.integers(1, 1000), st.booleans()))
def test_whatever_was_seen_the_search_ends_and_the_largest_that_fit_counts(fits: dict[int, bool]) -> None:
    found = largest(search(500, 1000, fits))
    assert found >= max((n for n, fit in fits.items() if fit), default=0)
