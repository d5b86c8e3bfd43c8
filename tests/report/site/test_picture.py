"""The small picture of a run: what its sentence is about, methods that can be told apart, failures where they were."""

import base64
import re
from collections.abc import Iterable
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from attnbench.report.drawing import style
from attnbench.report.drawing.images import on_dark
from attnbench.report.findings import Findings
from attnbench.report.site.picture import MOST, Chosen, Curve, Picture, chosen, drawn, picture
from attnbench.schema.cell import Workload
from attnbench.schema.suite import ReportSpec
from tests.report.conftest import Law, Synthetic


def findings(made: Synthetic, kept: int | None = None) -> Findings:
    return Findings.of(made.run(), made.records()[:kept])


def shown(made: Synthetic) -> Chosen:
    found = chosen(findings(made))
    assert found is not None
    return found


def pictured(made: Synthetic) -> Picture:
    found = picture(findings(made))
    assert found is not None
    return found


def names(curves: Iterable[Curve]) -> list[str]:
    return [curve.name for curve in curves]


def spots_of(line: Line2D) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in np.asarray(line.get_xydata())]


def test_it_shows_what_the_sentence_is_about() -> None:
    assert shown(Synthetic()).title == "time per sample; forward_backward, non-causal, float32"


def test_the_lowest_comes_first_with_the_look_of_the_figures_and_what_never_ran_has_no_curve(small: Synthetic) -> None:
    found, own = shown(small), style.looks(findings(small).labels)
    assert names(found.curves) == ["linear.chunked(chunk=64)", "softmax.sdpa", "softmax.naive"]
    assert found.others == ()
    assert [curve.look for curve in found.curves] == [own[curve.name] for curve in found.curves]


def test_a_cross_stands_where_a_method_first_failed(small: Synthetic) -> None:
    naive = shown(small).curves[-1]
    # of power 2: four times the last
    assert naive.failure is not None
    N, value = naive.failure
    assert N == 2048
    assert value == pytest.approx(4 * naive.points[max(naive.points)], rel=0.2)


def test_what_was_not_run_is_no_failure(small: Synthetic) -> None:
    found = chosen(findings(small, 4))
    assert found is not None
    assert [curve.failure for curve in found.curves] == [None] * len(found.curves)


def test_of_many_methods_the_lowest_are_named_and_what_they_are_compared_with() -> None:
    laws = [Law(f"linear.m{i:02}", 1e-3 * (i + 1), 1.0) for i in range(20)] + [Law("softmax.sdpa", 1.0, 1.0)]
    made = Synthetic(laws, lengths=(512, 1024), workloads=(Workload.FORWARD,), causal=(True,))
    found = shown(made)
    assert names(found.curves) == [*(f"linear.m{i:02}" for i in range(MOST - 1)), "softmax.sdpa"]
    assert len(found.others) == 15
    assert "softmax.sdpa and 15 more; N from 512 to 1k" in pictured(made).about


def test_a_suite_of_memory_shows_memory() -> None:
    found = pictured(Synthetic(report=ReportSpec(plots=("memory",))))
    assert found.about.startswith("memory per sample")
    assert found.about.endswith("iB")


def test_decoding_shows_time_per_token(decoding: Synthetic) -> None:
    assert shown(decoding).title.startswith("time per token; decode, causal, float32")


def test_a_run_without_a_number_has_no_picture(small: Synthetic) -> None:
    assert picture(findings(small, 0)) is None


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize("lengths", [(512,), (512, 1024, 2048)])
def test_everything_is_drawn_within_the_frame_and_crosses_above_what_they_follow(
    small: Synthetic, lengths: tuple[int, ...]
) -> None:
    small.lengths = lengths
    figure = drawn(shown(small))
    (axes,) = figure.axes
    limits = *axes.get_xlim(), *axes.get_ylim()
    spots = [(x, y) for line in axes.lines for x, y in spots_of(line)]
    assert len(spots) >= 3
    assert all(limits[0] <= x <= limits[1] and limits[2] <= y <= limits[3] for x, y in spots)
    crosses = [spots_of(line)[0] for line in axes.lines if line.get_marker() == "x"]
    assert len(crosses) == (len(lengths) > 1)
    assert all(cross == pytest.approx((11, max(y for _, y in spots))) for cross in crosses)


@pytest.mark.usefixtures("settings")
def test_the_ends_of_the_axes_and_the_methods_are_in_words(small: Synthetic) -> None:
    figure = drawn(shown(small))
    axes: Axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["N = 512", "2k"]
    assert all(re.fullmatch(r"[\d.]+ (µs|ms)", label.get_text()) for label in axes.get_yticklabels())
    assert [text.get_text() for text in figure.legends[0].texts] == names(shown(small).curves)
    assert pictured(small).about.startswith(
        "time per sample; forward, causal, float32: linear.chunked(chunk=64), softmax.sdpa, "
    )


def test_a_picture_is_plain_svg_whose_colours_turn_with_the_page(hostile: Synthetic) -> None:
    found = pictured(hostile)
    kind, _, text = found.address.partition(",")
    assert kind == "data:image/svg+xml;base64"
    svg = base64.b64decode(text).decode()
    root = ElementTree.fromstring(svg)
    tags = {each.tag.rpartition("}")[2] for each in root.iter()}
    assert tags <= {"svg", "g", "defs", "path", "use", "text", "tspan", "clipPath", "rect", "style"}
    light, dark = svg.split("@media(prefers-color-scheme:dark)", 1)
    colors = set(re.findall(r"var\(--c([0-9a-f]{6})\)", svg))
    assert colors
    assert not re.search(r"(?:fill|stroke): #", svg)
    for color in colors:
        assert f"--c{color}:#{color};" in light
        assert f"--c{color}:{on_dark(f'#{color}')};" in dark
    assert pictured(hostile) == found


def test_a_training_is_drawn_over_its_updates_and_what_failed_has_no_curve(learning: Synthetic) -> None:
    found = shown(learning)
    assert (found.title, found.across) == ("held-out loss, nats; train, causal, float32", "updates")
    # the first look is taken before any update, which a logarithm has no place for; the last is always shown
    assert list(found.curves[0].points) == [100, 200, 300, 400, 500, 700, 900, 1200, 1600, 2000]
    values = list(found.curves[0].points.values())
    assert values == sorted(values, reverse=True)
    assert set(names(found.curves)[:2]) == {"softmax.sdpa", "linear.chunked(chunk=64)"}
    assert names(found.curves)[2:] == ["lsh.reformer(rounds=4)"]
    assert "; updates from 100 to 2000, values from 0.0" in pictured(learning).about


def test_a_suite_that_asks_for_curves_and_drawings_has_a_picture_of_its_times_too(generating: Synthetic) -> None:
    generating.report = ReportSpec(tables=("summary",), plots=("curves", "drawings"))
    assert shown(generating).title == "time per sequence; generate, causal, float32, B=1"


def test_a_training_without_curves_gives_way_to_what_else_there_is(generating: Synthetic) -> None:
    generating.workloads, generating.lengths = (Workload.TRAIN, Workload.GENERATE), (64,)
    whole = findings(generating)
    found = chosen(Findings.over(whole.run, [replace(summary, series={}) for summary in whole.summaries]))
    assert found is not None
    assert found.title.startswith("time per sequence; generate")


@pytest.mark.parametrize("kept", [0, 1])
def test_an_unfinished_training_has_the_picture_of_what_there_is(learning: Synthetic, kept: int) -> None:
    assert (picture(findings(learning, kept)) is not None) is bool(kept)
