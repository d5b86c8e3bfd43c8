"""The small picture of a run: what its sentence is about, methods that can be told apart, failures where they were."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pytest

from attnbench.report.drawing.style import looks
from attnbench.report.findings import Findings
from attnbench.report.page.appearance import on_dark
from attnbench.report.site.pages.picture import Picture, classes, picture
from attnbench.report.site.pages.templates import rendered
from attnbench.report.site.pages.thumbnail import MOST, Curve, Thumbnail, thumbnail
from attnbench.schema.cell import Workload
from attnbench.schema.suite import ReportSpec

if TYPE_CHECKING:
    from tests.report.conftest import Law, Synthetic

NUMBER = r"-?\d+(?:\.\d+)?"


def shown(made: "Synthetic") -> Thumbnail:
    found = thumbnail(Findings.of(made.run(), made.records()))
    assert found is not None
    return found


def points(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(rf"[ML]({NUMBER}) ({NUMBER})", path)]


def names(curves: Iterable[Curve]) -> list[str]:
    return [curve.name for curve in curves]


def test_it_shows_what_the_sentence_is_about(synthetic: "type[Synthetic]") -> None:
    assert shown(synthetic()).title == "time per sample; forward_backward, non-causal, float32"


def test_the_lowest_comes_first_and_what_never_ran_has_no_curve(small: "Synthetic") -> None:
    found = shown(small)
    assert names(found.curves) == ["linear.chunked(chunk=64)", "softmax.sdpa", "softmax.naive"]
    assert found.others == ()


def test_a_cross_stands_where_a_method_first_failed(small: "Synthetic") -> None:
    naive = shown(small).curves[-1]
    assert naive.failure is not None
    N, value = naive.failure
    assert N == 2048
    # of power 2: four times the last
    assert value == pytest.approx(4 * naive.points[-1].value, rel=0.2)


def test_what_was_not_run_is_no_failure(small: "Synthetic") -> None:
    found = thumbnail(Findings.of(small.run(), small.records()[:4]))
    assert found is not None
    assert [curve.failure for curve in found.curves] == [None] * len(found.curves)


def test_looks_are_those_of_the_figures(small: "Synthetic") -> None:
    made = Findings.of(small.run(), small.records())
    own = looks(made.labels)
    assert [curve.look for curve in shown(small).curves] == [
        own[label] for label in ("linear.chunked(chunk=64)", "softmax.sdpa", "softmax.naive")
    ]


def test_of_many_methods_the_lowest_are_named_and_what_they_are_compared_with(
    synthetic: "type[Synthetic]", law: "type[Law]"
) -> None:
    laws = [law(f"linear.m{i:02}", 1e-3 * (i + 1), 1.0) for i in range(20)] + [law("softmax.sdpa", 1.0, 1.0)]
    found = shown(synthetic(laws, lengths=(512, 1024), workloads=(Workload.FORWARD,), causal=(True,)))
    assert names(found.curves) == [*(f"linear.m{i:02}" for i in range(MOST - 1)), "softmax.sdpa"]
    assert len(found.others) == 15
    assert picture(found).more == 15


def test_a_suite_of_memory_shows_memory(synthetic: "type[Synthetic]") -> None:
    found = shown(synthetic(report=ReportSpec(plots=("memory",))))
    assert found.title.startswith("memory per sample; ")
    assert picture(found).high.endswith("iB")


def test_decoding_shows_time_per_token(decoding: "Synthetic") -> None:
    assert shown(decoding).title.startswith("time per token; decode, causal, float32")


def test_a_run_without_a_number_has_no_picture(small: "Synthetic") -> None:
    assert thumbnail(Findings.of(small.run(), ())) is None


@pytest.mark.parametrize("lengths", [(512,), (512, 1024, 2048)])
def test_everything_is_drawn_within_the_frame(small: "Synthetic", lengths: tuple[int, ...]) -> None:
    small.lengths = lengths
    drawn = picture(shown(small))
    for stroke in drawn.strokes:
        for x, y in points(stroke.line + stroke.marks + stroke.cross):
            assert 58 <= x <= 322
            assert 8 <= y <= 104
        assert len(points(stroke.marks)) >= 1


def test_a_cross_stands_apart_from_the_points_below_it(small: "Synthetic") -> None:
    drawn = picture(shown(small))
    highest = min(y for stroke in drawn.strokes for _, y in points(stroke.marks))
    (cross,) = (points(stroke.cross)[0] for stroke in drawn.strokes if stroke.cross)
    assert cross == pytest.approx((322, 8))
    assert highest >= 16
    assert float(drawn.top) == highest


def test_longer_is_to_the_right_and_more_is_higher(small: "Synthetic") -> None:
    stroke = picture(shown(small)).strokes[1]
    across = points(stroke.line)
    assert across == sorted(across)
    assert [y for _, y in across] == sorted((y for _, y in across), reverse=True)


def test_the_ends_of_the_axes_are_in_words(small: "Synthetic") -> None:
    drawn = picture(shown(small))
    assert (drawn.first, drawn.last) == ("512", "2k")
    assert drawn.low.endswith((" µs", " ms"))
    assert drawn.about.startswith("time per sample; forward, causal, float32: linear.chunked(chunk=64), softmax.sdpa, ")


def test_every_colour_has_one_for_dark_pages(small: "Synthetic") -> None:
    drawn: Picture = picture(shown(small))
    text = rendered("tables.html", classes([drawn]), title="", words=[], tables=[], home="index.html")
    for stroke in drawn.strokes:
        assert f".{stroke.color} {{ --ink: #{stroke.color[1:]}; }}" in text
        assert f".{stroke.color} {{ --ink: {on_dark(f'#{stroke.color[1:]}')}; }}" in text
