"""The small picture of a run: what its sentence is about, methods that can be told apart, failures where they were."""

import base64
import re
from collections.abc import Iterable
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.lines import Line2D

from attnbench.report.drawing import style
from attnbench.report.drawing.images import on_dark
from attnbench.report.findings import Findings
from attnbench.report.site.picture import MOST, Chosen, Curve, Picture, chosen, drawn, picture
from attnbench.schema.cell import Workload
from attnbench.schema.suite import ReportSpec
from tests.analyze.conftest import known
from tests.report.conftest import Law, Synthetic
from tests.report.drawn import found


def shown(findings: Findings) -> Chosen:
    return known(chosen(findings))


def pictured(findings: Findings) -> Picture:
    return known(picture(findings))


def names(curves: Iterable[Curve]) -> list[str]:
    return [curve.name for curve in curves]


def spots_of(line: Line2D) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in np.asarray(line.get_xydata())]


# what is chosen


def test_it_shows_what_the_sentence_is_about_or_else_what_the_suite_wants(decoding: Synthetic, generating: Synthetic) -> None:
    assert shown(found(Synthetic())).title == "time per sample; forward + backward, non-causal, float32"
    assert shown(found(decoding)).title.startswith("time per token; decoding, causal, float32")
    memory = pictured(found(Synthetic(report=ReportSpec(plots=("memory",)))))
    assert memory.about.startswith("memory per sample")
    assert memory.about.endswith("iB")
    # of what was trained, curves and drawings; where there are none the times
    generating.report = ReportSpec(tables=("summary",), plots=("curves", "drawings"))
    assert shown(found(generating)).title == "time per sequence; generating, causal, float32, B=1"
    generating.workloads, generating.lengths = (Workload.TRAIN, Workload.GENERATE), (64,)
    whole = found(generating)
    bare = Findings.over(whole.run, [replace(summary, series={}) for summary in whole.summaries])
    assert shown(bare).title.startswith("time per sequence; generating")


def test_the_lowest_comes_first_with_the_look_of_the_figures_and_a_cross_where_it_first_failed(small: Synthetic) -> None:
    made, own = shown(found(small)), style.looks(found(small).labels)
    # what never ran has no curve
    assert (names(made.curves), made.others) == (["linear.chunked(chunk=64)", "softmax.sdpa", "softmax.naive"], ())
    assert [curve.look for curve in made.curves] == [own[curve.name] for curve in made.curves]
    naive = made.curves[-1]
    # of power 2: four times the last
    assert naive.failure is not None
    assert naive.failure == pytest.approx((2048, 4 * naive.points[1024]), rel=0.2)


def test_what_was_not_run_is_no_failure_and_without_a_number_there_is_no_picture(small: Synthetic) -> None:
    made = shown(Findings.of(small.run(), small.records()[:4]))
    assert [curve.failure for curve in made.curves] == [None] * len(made.curves)
    assert picture(Findings.of(small.run(), [])) is None


def test_of_many_methods_the_lowest_are_named_and_what_they_are_compared_with() -> None:
    laws = [Law(f"linear.m{i:02}", 1e-3 * (i + 1), 1.0) for i in range(20)] + [Law("softmax.sdpa", 1.0, 1.0)]
    findings = found(Synthetic(laws, lengths=(512, 1024), workloads=(Workload.FORWARD,), causal=(True,)))
    made = shown(findings)
    assert names(made.curves) == [*(f"linear.m{i:02}" for i in range(MOST - 1)), "softmax.sdpa"]
    assert len(made.others) == 15
    assert "softmax.sdpa and 15 more; N from 512 to 1k" in pictured(findings).about


def test_a_training_is_drawn_over_its_updates_and_what_failed_has_no_curve(learning: Synthetic) -> None:
    made = shown(found(learning))
    assert (made.title, made.across) == ("held-out loss, nats; training, causal, float32", "updates")
    # the first look is taken before any update, which a logarithm has no place for; the last is always shown
    assert list(made.curves[0].points) == [100, 200, 300, 400, 500, 700, 900, 1200, 1600, 2000]
    values = list(made.curves[0].points.values())
    assert values == sorted(values, reverse=True)
    assert set(names(made.curves)[:2]) == {"softmax.sdpa", "linear.chunked(chunk=64)"}
    assert names(made.curves)[2:] == ["lsh.reformer(rounds=4)"]
    assert "; updates from 100 to 2000, values from 0.0" in pictured(found(learning)).about
    # of one that is unfinished, what there is
    assert picture(Findings.of(learning.run(), [])) is None
    assert picture(Findings.of(learning.run(), learning.records()[:1])) is not None


# how it is drawn


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize("lengths", [(512,), (512, 1024, 2048)])
def test_everything_is_drawn_within_the_frame_and_crosses_above_the_others(small: Synthetic, lengths: tuple[int, ...]) -> None:
    small.lengths = lengths
    (axes,) = drawn(shown(found(small))).axes
    limits = *axes.get_xlim(), *axes.get_ylim()
    spots = [(x, y) for line in axes.lines for x, y in spots_of(line)]
    assert len(spots) >= 3
    assert all(limits[0] <= x <= limits[1] and limits[2] <= y <= limits[3] for x, y in spots)
    crosses = [spots_of(line)[0] for line in axes.lines if line.get_marker() == "x"]
    assert len(crosses) == (len(lengths) > 1)
    assert all(cross == pytest.approx((11, max(y for _, y in spots))) for cross in crosses)


@pytest.mark.usefixtures("settings")
def test_the_ends_of_the_axes_and_the_methods_are_in_words(small: Synthetic) -> None:
    made = shown(found(small))
    figure = drawn(made)
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["N = 512", "2k"]
    assert all(re.fullmatch(r"[\d.]+ (µs|ms)", label.get_text()) for label in axes.get_yticklabels())
    assert [text.get_text() for text in figure.legends[0].texts] == names(made.curves)
    about = "time per sample; forward, causal, float32: linear.chunked(chunk=64), softmax.sdpa, "
    assert pictured(found(small)).about.startswith(about)


def test_a_picture_is_plain_svg_whose_colours_turn_with_the_page(hostile: Synthetic) -> None:
    made = pictured(found(hostile))
    kind, _, text = made.address.partition(",")
    assert kind == "data:image/svg+xml;base64"
    svg = base64.b64decode(text).decode()
    tags = {each.tag.rpartition("}")[2] for each in ElementTree.fromstring(svg).iter()}
    assert tags <= {"svg", "g", "defs", "path", "use", "text", "tspan", "clipPath", "rect", "style"}
    light, dark = svg.split("@media(prefers-color-scheme:dark)", 1)
    colors = set(re.findall(r"var\(--c([0-9a-f]{6})\)", svg))
    assert colors
    assert not re.search(r"(?:fill|stroke): #", svg)
    for color in colors:
        assert f"--c{color}:#{color};" in light
        assert f"--c{color}:{on_dark(f'#{color}')};" in dark
    assert pictured(found(hostile)) == made
