"""A family has a hue, its variants shades, markers and dashes; no two methods of a run look alike, in colour or in grey."""

from collections.abc import Callable
from colorsys import rgb_to_hsv

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_rgb

from attnbench.report.drawing import style
from attnbench.report.drawing.style import looks, run_looks
from attnbench.report.findings import Findings

NAMES = [f"{family}.{variant}" for family in ("linear", "lsh", "sparse", "softmax", "vq") for variant in "abcdefghijkl"]


def hue(color: str) -> float:
    """An angle, of which six are a full turn."""
    return 6 * rgb_to_hsv(*to_rgb(color))[0]


@settings(deadline=None)
@given(st.lists(st.sampled_from(NAMES), min_size=1, max_size=20, unique=True))
def test_all_of_a_family_have_its_hue_a_marker_tells_any_two_apart_in_grey_and_order_does_not_matter(labels: list[str]) -> None:
    found = looks(labels)
    for label, look in found.items():
        family = label.partition(".")[0]
        if family != "softmax":
            assert hue(look.color) == pytest.approx(hue(style._HUES[family]), abs=0.06)
    assert len({(look.marker, look.filled) for look in found.values()}) == len(labels)
    assert looks(sorted(labels)) == found


@settings(deadline=None)
@given(st.lists(st.text(), unique=True, max_size=60))
def test_whatever_the_names_no_two_are_alike(labels: list[str]) -> None:
    found = looks(labels)
    assert (list(found), len(set(found.values()))) == (labels, len(labels))


@pytest.mark.parametrize("count", [1, 7, 22, 120, 300])
def test_in_large_families_no_two_are_alike(count: int) -> None:
    assert len(set(looks(f"m.{i}" for i in range(count)).values())) == count


def test_black_and_grey_are_the_exact_ones_and_a_family_that_does_not_ship_has_a_hue_that_nobody_else_has() -> None:
    grey = {label for label, look in looks(NAMES).items() if len({look.color[i : i + 2] for i in (1, 3, 5)}) == 1}
    assert grey == {label for label in NAMES if label.startswith("softmax.")}
    found = looks(["linear.x", "lsh.x", "mine.a", "yours.a", "softmax.sdpa"])
    assert len({look.color for look in found.values()}) == 5


def test_variants_are_in_the_order_of_their_numbers() -> None:
    found = list(looks(f"lsh.reformer(rounds={n})" for n in (2, 16, 4)).values())
    assert [look.marker for look in found] == ["o", "^", "s"]


def test_a_part_of_a_run_looks_as_all_of_it_does(everything: Callable[..., Findings]) -> None:
    findings = everything()
    assert run_looks(findings.only([], ["sparse.strided", "softmax.sdpa"])) == run_looks(findings)
