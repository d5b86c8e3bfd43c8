from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnbench.report.drawing.apart import spread_apart

labels = st.lists(st.tuples(st.floats(0, 1), st.floats(0.01, 0.1)), min_size=1, max_size=10)


@given(labels)
def test_labels_do_not_overlap_keep_their_order_and_stay_inside(pairs: list[tuple[float, float]]) -> None:
    centres, heights = [c for c, _ in pairs], [h for _, h in pairs]
    found = spread_apart(centres, heights, 0.0, 1.0)
    order = sorted(range(len(pairs)), key=lambda i: found[i])
    assert [centres[i] for i in order] == sorted(centres)
    for a, b in pairwise(order):
        assert found[b] - found[a] >= (heights[a] + heights[b]) / 2 - 1e-9
    assert all(f - h / 2 >= -1e-9 and f + h / 2 <= 1 + 1e-9 for f, h in zip(found, heights, strict=True))


def test_labels_with_room_stay_where_they_are() -> None:
    assert spread_apart([0.9, 0.1, 0.5], [0.1] * 3, 0, 1) == pytest.approx([0.9, 0.1, 0.5])


def test_two_labels_at_one_place_move_by_half_a_height_each() -> None:
    assert spread_apart([0.5, 0.5], [0.2, 0.2], 0, 1) == pytest.approx([0.4, 0.6])


def test_labels_that_do_not_fit_still_do_not_overlap() -> None:
    assert spread_apart([0.5] * 3, [0.5] * 3, 0, 1) == pytest.approx([0.25, 0.75, 1.25])
