"""What a printed or projected figure must be, of every kind and on every sheet: its size, its letters, no words over others."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import combinations, pairwise

import pytest
from matplotlib.colors import to_rgb, to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from attnbench.report.drawing.sheet import SLIDE, Style, sheet
from attnbench.schema.cell import Workload
from tests.report.drawn import pictures as drawn
from tests.report.figures.conftest import KINDS, Everything, Suited

MARKERS = {"o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h"}
SHEETS = {
    "paper-single": sheet(Style.PAPER, "single"),
    "paper-double": sheet(Style.PAPER),
    "talk": SLIDE,
    "web-double": sheet(Style.WEB),
}
# the narrowest sheet and the largest letters in any case
REGULAR = {"paper-single", "talk"}
every = pytest.mark.parametrize("on", [pytest.param(on, marks=[] if on in REGULAR else pytest.mark.slow) for on in SHEETS])
kinds = pytest.mark.parametrize("kind", KINDS)
OWN = ("scaling", "roofline", "drawings")
"""Kinds with code of their own for what they draw; what a sheet does to these it does to those that draw like them."""


def few(*regular: str) -> pytest.MarkDecorator:
    """All kinds, but for these only where there is time."""
    return pytest.mark.parametrize(
        "kind", [pytest.param(kind, marks=[] if kind in regular else pytest.mark.slow) for kind in KINDS]
    )


@dataclass(frozen=True)
class Seen:
    """A figure, and all words that can be read in it: text, points, where they stand."""

    figure: Figure
    words: list[tuple[str, float, Bbox]]

    @property
    def methods(self) -> list[Line2D]:
        """Lines of methods, no ticks and no crosses."""
        lines = [line for line in self.figure.findobj(Line2D) if isinstance(line, Line2D)]
        soft = {"#444444", "#777777", "black"}
        return [line for line in lines if line.get_marker() in MARKERS and line.get_color() not in soft]


_SEEN: dict[tuple[str, str], list[Seen]] = {}


def seen(figure: Figure) -> Seen:
    # matplotlib keeps ticks beyond the ends of an axis, and does not draw them
    ticks = [(axis, tick) for axes in figure.axes for axis in (axes.xaxis, axes.yaxis) for tick in axis.get_major_ticks()]
    beyond = {id(tick.label1) for axis, tick in ticks if not inside(axis.get_view_interval(), tick.get_loc())}
    texts = [
        text
        for text in figure.findobj(Text)
        if isinstance(text, Text) and text.get_visible() and text.get_text() and id(text) not in beyond
    ]
    boxes = [text.get_window_extent() for text in texts]
    return Seen(figure, [(t.get_text(), float(t.get_fontsize()), box) for t, box in zip(texts, boxes, strict=True)])


def inside(ends: Iterable[float], place: float) -> bool:
    low, high = sorted(ends)
    return low <= place <= high


Pictures = Callable[[str, str], list[Seen]]


@pytest.fixture
def pictures(suited: Suited) -> Pictures:
    """Drawn once for all tests, which only look."""

    def _pictures(on: str, kind: str) -> list[Seen]:
        if (on, kind) not in _SEEN:
            findings = suited(kind, causal=(True, False))
            _SEEN[on, kind] = [seen(figure) for figure in drawn(findings, kind, SHEETS[on])]
        return _SEEN[on, kind]

    return _pictures


@every
@kinds
def test_no_letter_is_smaller_than_seven_points_and_none_leaves_the_sheet(on: str, kind: str, pictures: Pictures) -> None:
    for picture in pictures(on, kind):
        whole = picture.figure.bbox
        for text, size, box in picture.words:
            assert size >= SHEETS[on].font, text
            assert box.x0 >= whole.x0 - 1, text
            assert box.x1 <= whole.x1 + 1, text
            assert box.y0 >= whole.y0 - 1, text
            assert box.y1 <= whole.y1 + 1, text


@every
@kinds
def test_no_words_lie_over_others(on: str, kind: str, pictures: Pictures) -> None:
    for picture in pictures(on, kind):
        for (first, _, a), (second, _, b) in combinations(picture.words, 2):
            wide, high = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
            assert wide <= 1 or high <= 1, (first, second)


@every
@kinds
def test_panels_have_room_to_be_read(on: str, kind: str, pictures: Pictures) -> None:
    for picture in pictures(on, kind):
        width, height = picture.figure.get_size_inches()
        for axes in picture.figure.axes:
            box, least = axes.get_position(), 0.85 * SHEETS[on].font / 7
            assert box.width * float(width) >= least
            assert box.height * float(height) >= least


@every
@kinds
def test_in_grey_any_two_methods_differ_in_marker_or_in_lightness(on: str, kind: str, pictures: Pictures) -> None:
    for picture in pictures(on, kind):
        colors: dict[tuple[str, bool], set[str]] = {}
        for line in picture.methods:
            hollow = line.get_markerfacecolor() in {"white", "none"}
            colors.setdefault((str(line.get_marker()), hollow), set()).add(str(line.get_color()))
        # drawings have no lines: panels bear the names
        assert colors or kind == "drawings"
        for alike in colors.values():
            assert all(b - a > 0.04 for a, b in pairwise(sorted(map(luminance, alike)))), alike


@kinds
def test_a_figure_has_the_width_of_a_column_and_fits_on_it(kind: str, pictures: Pictures) -> None:
    has_width(pictures("paper-single", kind), 3.35)


@few("scaling")
def test_a_figure_has_the_width_of_a_page_and_fits_on_it(kind: str, pictures: Pictures) -> None:
    has_width(pictures("paper-double", kind), 7.0)


def has_width(found: list[Seen], width: float) -> None:
    for picture in found:
        assert float(picture.figure.get_figwidth()) == width
        assert float(picture.figure.get_figheight()) <= 9


@kinds
def test_a_slide_is_16_by_9_with_letters_that_are_read_from_the_last_row(kind: str, pictures: Pictures) -> None:
    for picture in pictures("talk", kind):
        width, height = picture.figure.get_size_inches()
        assert float(width / height) == pytest.approx(16 / 9)
        assert min(size for _, size, _ in picture.words) >= 16


@few(*OWN)
def test_the_web_gets_a_clear_ground_and_ink_for_white_and_black(kind: str, pictures: Pictures) -> None:
    for picture in pictures("web-double", kind):
        grounds = [picture.figure.get_facecolor(), *(axes.get_facecolor() for axes in picture.figure.axes)]
        assert all(to_rgba(ground)[3] == 0 for ground in grounds)
        drawn = [each for each in picture.figure.findobj() if isinstance(each, Line2D | Text) and each.get_visible()]
        for artist in drawn:
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


def test_a_paper_gets_no_titles_and_axes_with_names(pictures: Pictures) -> None:
    (picture,) = pictures("paper-double", "scaling")
    assert picture.figure.get_suptitle() == ""
    assert [axes.get_ylabel() for axes in picture.figure.axes] == ["time per sample", ""]
    assert [axes.get_title(loc="left") for axes in picture.figure.axes] == ["forward, causal", "forward, non-causal"]


def test_in_one_column_panels_stand_one_below_the_other_and_share_their_scale(pictures: Pictures) -> None:
    (picture,) = pictures("paper-single", "scaling")
    upper, lower = picture.figure.axes
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
