"""Colours, dashes and markers of the figures, as a page has them."""

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnbench.report.drawing.style import looks
from attnbench.report.page.appearance import contrast, corners, dashes, name, on_dark, variables

if TYPE_CHECKING:
    from attnbench.report.drawing.style import Look

BACK = (20, 23, 26)


def parts(color: str) -> tuple[int, ...]:
    return tuple(int(color[i : i + 2], 16) for i in (1, 3, 5))


@given(st.integers(0, 0xFFFFFF))
def test_every_colour_can_be_read_on_a_dark_ground(color: int) -> None:
    assert contrast(parts(on_dark(f"#{color:06x}")), BACK) >= 4.5


@pytest.mark.parametrize("color", ["#56b4e9", "#e69f00"])
def test_a_colour_that_is_light_enough_stays(color: str) -> None:
    assert on_dark(color) == color


def test_black_and_grey_stay_apart_on_a_dark_ground() -> None:
    assert on_dark("#000000") == "#ffffff"
    assert on_dark("#7f7f7f") < "#999999"


def test_contrast_is_that_of_the_guidelines() -> None:
    assert contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21)
    assert contrast((119, 119, 119), (255, 255, 255)) == pytest.approx(4.48, abs=0.01)


def test_every_colour_of_the_figures_has_a_variable() -> None:
    known: list[Look] = list(looks([f"method {i}" for i in range(60)]).values())
    text = variables(known)
    assert all(f"{name(look.color)}:light-dark({look.color}," in text for look in known)
    assert text.count(":light-dark(") == len({look.color for look in known})


@pytest.mark.parametrize(
    ("line", "pattern"),
    [("-", ""), ("--", "5.92 2.56"), ("-.", "10.2 2.56 1.6 2.56"), (":", "1.6 2.64"), ((0, (1, 1)), "1.6 1.6")],
)
def test_dashes_are_those_of_the_figures(line: "str | tuple[int, tuple[int, ...]]", pattern: str) -> None:
    assert dashes(line) == pattern


def test_a_circle_has_no_corners() -> None:
    assert corners("o") == []


@pytest.mark.parametrize(("marker", "count"), [("s", 4), ("^", 3), ("D", 4), ("p", 5), ("h", 6), ("P", 12), ("X", 12)])
def test_a_marker_has_the_corners_of_its_shape(marker: str, count: int) -> None:
    found = corners(marker)
    assert len({tuple(corner) for corner in found}) == count
    assert max(abs(value) for corner in found for value in corner) <= 1.5


def test_a_triangle_that_points_up_has_its_tip_above() -> None:
    assert min(corners("^"), key=lambda corner: corner[1])[0] == 0
