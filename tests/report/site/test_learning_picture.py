"""The small picture of a run that trains: what is learnt against updates."""

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from attnbench.report.findings import Findings
from attnbench.report.site.pages.picture import picture
from attnbench.report.site.pages.thumbnail import Thumbnail, thumbnail
from attnbench.schema.cell import Workload
from attnbench.schema.suite import ReportSpec

if TYPE_CHECKING:
    from tests.report.conftest import Synthetic


def found(made: "Synthetic") -> Findings:
    return Findings.of(made.run(), made.records())


def shown(made: "Synthetic") -> Thumbnail:
    drawn = thumbnail(found(made))
    assert drawn is not None
    return drawn


def test_a_training_is_drawn_over_its_updates(learning: "Synthetic") -> None:
    drawn = shown(learning)
    assert (drawn.title, drawn.metric, drawn.across) == ("held-out loss, nats; train, causal, float32", "loss", "updates")
    # the first look is taken before any update, which a logarithm has no place for; the last is always shown
    assert [point.N for point in drawn.curves[0].points] == [100, 200, 300, 400, 500, 700, 900, 1200, 1600, 2000]
    values = [point.value for point in drawn.curves[0].points]
    assert values == sorted(values, reverse=True)


def test_what_has_learnt_the_most_is_named_first_and_what_failed_has_no_curve(learning: "Synthetic") -> None:
    names = [curve.name for curve in shown(learning).curves]
    assert set(names[:2]) == {"softmax.sdpa", "linear.chunked(chunk=64)"}
    assert names[2:] == ["lsh.reformer(rounds=4)"]


def test_the_axis_says_that_it_is_of_updates(learning: "Synthetic") -> None:
    drawn = picture(shown(learning))
    assert drawn.across == "updates"
    assert "; updates from 100 to 2000, values from 0.0" in drawn.about


def test_a_suite_that_asks_for_curves_and_drawings_has_a_picture_of_its_times_too(generating: "Synthetic") -> None:
    generating.report = ReportSpec(tables=("summary",), plots=("curves", "drawings"))
    assert shown(generating).title == "time per sequence; generate, causal, float32, B=1"


def test_a_training_without_curves_gives_way_to_what_else_there_is(generating: "Synthetic") -> None:
    generating.workloads, generating.lengths = (Workload.TRAIN, Workload.GENERATE), (64,)
    findings = found(generating)
    bare = Findings.over(findings.run, [replace(summary, series={}) for summary in findings.summaries])
    drawn = thumbnail(bare)
    assert drawn is not None
    assert drawn.title.startswith("time per sequence; generate")


@pytest.mark.parametrize("kept", [0, 1])
def test_an_unfinished_training_has_the_picture_of_what_there_is(learning: "Synthetic", kept: int) -> None:
    drawn = thumbnail(Findings.of(learning.run(), learning.records()[:kept]))
    assert (drawn is not None) is bool(kept)
