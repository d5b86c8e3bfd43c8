"""What a printed or projected figure must be, of every kind and on every sheet: its size, its letters, no words over others.

Pictures are kept as they were when they were looked at. RENEW=1 writes them anew after a wanted change: look at them.
"""

import math
import os
from collections.abc import Callable, Iterable
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from matplotlib.colors import to_rgb, to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.testing.compare import compare_images
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from attnbench.report.drawing import style
from attnbench.report.drawing.images import images
from attnbench.report.drawing.sheet import FOLDER, SLIDE, Style, sheet
from attnbench.report.figures import make
from attnbench.schema.cell import Workload
from tests.report.drawn import pictures as drawn
from tests.report.figures.conftest import KINDS, Everything, Suited

MARKERS = {"o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h"}
SHEETS = {
    "paper-single": sheet(Style.PAPER, "single"),
    "paper-double": sheet(Style.PAPER),
    "talk": SLIDE,
    "web": sheet(Style.WEB),
    "folder": FOLDER,
}
SIZES = {"paper-single": 3.35, "paper-double": 7.0, "talk": 16 / 9}
"""Inches of width, and the shape of a slide."""
OWN = ("scaling", "roofline", "drawings")
"""Kinds with code of their own for what they draw; what a sheet does to these it does to those that draw like them."""


def shown(regular: dict[str, Iterable[str]]) -> pytest.MarkDecorator:
    """All kinds on these sheets, but only where there is time those that are not named for a sheet."""
    marks = {False: [pytest.mark.slow], True: []}
    cases = [pytest.param(on, kind, marks=marks[kind in named]) for on, named in regular.items() for kind in KINDS]
    return pytest.mark.parametrize(("on", "kind"), cases)


# the narrowest sheet in any case
every = shown({"paper-single": KINDS, "talk": OWN, "paper-double": (), "web": ()})


def readable(figure: Figure) -> list[tuple[str, float, Bbox]]:
    """All words that can be read in a figure: text, points, where they stand."""
    # matplotlib keeps ticks beyond the ends of an axis, and does not draw them
    axes = [(axis, sorted(axis.get_view_interval())) for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)]
    beyond = {id(t.label1) for axis, (low, high) in axes for t in axis.get_major_ticks() if not low <= t.get_loc() <= high}
    texts = [text for text in figure.findobj(Text) if isinstance(text, Text) and text.get_visible() and id(text) not in beyond]
    return [(text.get_text(), float(text.get_fontsize()), text.get_window_extent()) for text in texts if text.get_text()]


def methods(figure: Figure) -> list[Line2D]:
    """Lines of methods, no ticks and no crosses."""
    lines = [line for line in figure.findobj(Line2D) if isinstance(line, Line2D)]
    soft = {"#444444", "#777777", "black"}
    return [line for line in lines if line.get_marker() in MARKERS and line.get_color() not in soft]


Pictures = Callable[[str, str], list[Figure]]
_DRAWN: dict[tuple[str, str], list[Figure]] = {}


@pytest.fixture
def pictures(suited: Suited) -> Pictures:
    """Drawn once for all tests, which only look."""

    def _pictures(on: str, kind: str) -> list[Figure]:
        if (on, kind) not in _DRAWN:
            _DRAWN[on, kind] = drawn(suited(kind, causal=(True, False)), kind, SHEETS[on])
        return _DRAWN[on, kind]

    return _pictures


@every
def test_letters_and_panels_are_large_enough_to_be_read_and_stay_on_the_sheet(on: str, kind: str, pictures: Pictures) -> None:
    for picture in pictures(on, kind):
        whole = picture.bbox
        for text, size, box in readable(picture):
            assert size >= SHEETS[on].font, text
            assert box.x0 >= whole.x0 - 1, text
            assert box.x1 <= whole.x1 + 1, text
            assert box.y0 >= whole.y0 - 1, text
            assert box.y1 <= whole.y1 + 1, text
        width, height = map(float, picture.get_size_inches())
        for axes in picture.axes:
            panel, least = axes.get_position(), 0.85 * SHEETS[on].font / 7
            assert min(panel.width * width, panel.height * height) >= least


@every
def test_no_words_lie_over_others(on: str, kind: str, pictures: Pictures) -> None:
    for picture in pictures(on, kind):
        for (first, _, a), (second, _, b) in combinations(readable(picture), 2):
            wide, high = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
            assert wide <= 1 or high <= 1, (first, second)


@every
def test_in_grey_any_two_methods_differ_in_marker_or_in_lightness(on: str, kind: str, pictures: Pictures) -> None:
    for picture in pictures(on, kind):
        colors: dict[tuple[str, bool], set[str]] = {}
        for line in methods(picture):
            hollow = line.get_markerfacecolor() in {"white", "none"}
            colors.setdefault((str(line.get_marker()), hollow), set()).add(str(line.get_color()))
        # drawings have no lines: panels bear the names
        assert colors or kind == "drawings"
        for alike in colors.values():
            assert all(b - a > 0.04 for a, b in pairwise(sorted(map(luminance, alike)))), alike


@shown({"paper-single": KINDS, "talk": OWN, "paper-double": ("scaling",)})
def test_a_figure_has_the_size_of_a_column_a_page_or_a_slide(on: str, kind: str, pictures: Pictures) -> None:
    # letters of a slide are read from the last row
    assert on != "talk" or SLIDE.font >= 16
    for picture in pictures(on, kind):
        width, height = map(float, picture.get_size_inches())
        assert (width / height if on == "talk" else width) == pytest.approx(SIZES[on])
        assert height <= 9


@shown({"web": OWN})
def test_the_web_gets_a_clear_ground_and_ink_for_white_and_black(on: str, kind: str, pictures: Pictures) -> None:
    for picture in pictures(on, kind):
        grounds = [picture.get_facecolor(), *(axes.get_facecolor() for axes in picture.axes)]
        assert all(to_rgba(ground)[3] == 0 for ground in grounds)
        for artist in [each for each in picture.findobj() if isinstance(each, Line2D | Text) and each.get_visible()]:
            assert 0.05 < luminance(artist.get_color()) < 0.75, artist


def luminance(color: object) -> float:
    """As WCAG 2.2 defines it."""
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color))  # type: ignore[arg-type]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_more_panels_than_a_slide_holds_go_on_on_the_next(everything: Everything) -> None:
    first, second = drawn(everything(causal=(True, False), dtypes=("float32", "bfloat16")), "scaling", SLIDE)
    titles = [picture.get_suptitle().splitlines()[0] for picture in (first, second)]
    assert titles == ["forward: time per sample (1 of 2)", "forward: time per sample (2 of 2)"]
    assert len(first.axes) == len(second.axes) == 2


def test_a_paper_gets_axes_with_names_and_no_titles_and_one_column_its_panels_below_each_other(pictures: Pictures) -> None:
    (double,), (single,) = pictures("paper-double", "scaling"), pictures("paper-single", "scaling")
    assert double.get_suptitle() == ""
    assert [axes.get_ylabel() for axes in double.axes] == ["time per sample", ""]
    assert [axes.get_title(loc="left") for axes in double.axes] == ["forward, causal", "forward, non-causal"]
    upper, lower = single.axes
    assert upper.get_position().x0 == pytest.approx(lower.get_position().x0)
    assert upper.get_position().y0 > lower.get_position().y1
    assert upper.get_ylim() == lower.get_ylim()


@pytest.mark.parametrize(
    ("width", "inches"), [("neurips", 5.5), ("icml", 3.25), ("acl-double", 6.3), ("5.5in", 5.5), ("12.7 cm", 5.0)]
)
def test_a_width_is_that_of_a_venue_or_a_length(everything: Everything, width: str, inches: float) -> None:
    (picture,) = drawn(everything(workloads=(Workload.FORWARD,)), "scaling", sheet(Style.PAPER, width, "2.5in"))
    assert picture.get_size_inches() == pytest.approx((inches, 2.5))


@pytest.mark.parametrize("given", [("tall", None), ("0.2in", None), ("nan", None), ("5in", "1e9in"), (None, "-3in")])
def test_a_width_or_height_that_is_none_is_refused(given: tuple[str | None, str | None]) -> None:
    with pytest.raises(ValueError, match=r"--(width|height)"):
        sheet(Style.PAPER, *given)


GOLDEN = Path(__file__).parents[1] / "golden" / "figures"
KEPT = [*((kind, "paper-double") for kind in KINDS), *(("scaling", on) for on in SHEETS if on != "paper-double")]
_TOLERANCE = 2.0
_PIXELS = 90_000
"""Pixels of a picture."""


@pytest.mark.parametrize(("kind", "on"), KEPT)
def test_a_figure_looks_as_it_did(kind: str, on: str, suited: Suited, tmp_path: Path) -> None:
    name = f"{kind}-{on}.png"
    made = (GOLDEN if os.environ.get("RENEW") else tmp_path) / name
    with style.applied(SHEETS[on].settings):
        first = make.drawn(suited(kind), kind, SHEETS[on])[0].sheets[0]
        width, height = first.get_size_inches()
        made.write_bytes(images(first, ("png",), int(math.sqrt(_PIXELS / float(width * height))))["png"])
    difference = compare_images(str(GOLDEN / name), str(made), _TOLERANCE)
    assert difference is None, difference
