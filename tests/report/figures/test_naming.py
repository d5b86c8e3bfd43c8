import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbench.report.figures.pareto.naming import Named, names_placed

SIZE = (2.0, 1.5)
named = st.builds(Named, st.floats(0, 2), st.floats(0, 1.5), st.floats(0.1, 1.5))


@settings(deadline=None)
@given(st.lists(named, max_size=14))
def test_names_overlap_neither_with_each_other_nor_with_points_nor_the_edge(points: list[Named]) -> None:
    found = names_placed(points, SIZE, 0.1, 0.04)
    boxes = [
        (corner[0], corner[1], corner[0] + point.width, corner[1] + 0.1)
        for point, corner in zip(points, found, strict=True)
        if corner is not None
    ]
    for i, a in enumerate(boxes):
        assert a[0] >= 0
        assert a[1] >= 0
        assert a[2] <= SIZE[0]
        assert a[3] <= SIZE[1]
        for b in boxes[:i]:
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
        for p in points:
            assert not (a[0] < p.x < a[2] and a[1] < p.y < a[3])


def test_a_name_stands_right_of_its_point_where_there_is_room() -> None:
    ((x, y),) = [corner for corner in names_placed([Named(0.5, 0.7, 0.6)], SIZE, 0.1, 0.04) if corner]
    assert x > 0.5
    assert y == pytest.approx(0.65)


def test_at_the_right_edge_it_stands_left() -> None:
    ((x, _),) = [corner for corner in names_placed([Named(1.9, 0.7, 0.6)], SIZE, 0.1, 0.04) if corner]
    assert x + 0.6 < 1.9


def test_what_has_no_room_at_all_has_no_name() -> None:
    assert names_placed([Named(1.0, 0.7, 3.0)], SIZE, 0.1, 0.04) == [None]
