"""Learning curves: what is drawn against what, on which scale, and what is said of those that have none."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from attnbench.analyze.learning_curve import LOSSES, Moment
from attnbench.report.drawing import grid, style
from attnbench.report.drawing.sheet import FOLDER
from attnbench.report.figures.run_folder import plots
from attnbench.report.findings import Findings
from attnbench.report.questions.learning.curves.board import curves_board, curves_caption
from attnbench.report.questions.learning.curves.scale import Height, Way
from attnbench.schema.outcome import CURVE_ACCURACY
from attnbench.schema.training import Task, Training

if TYPE_CHECKING:
    from tests.report.conftest import Law, Synthetic


def found(run: "Synthetic") -> Findings:
    return Findings.of(run.run(), run.records())


def drawn(findings: Findings) -> Figure:
    with style.applied():
        (picture,) = grid.figures(curves_board(findings, findings.sections, FOLDER), FOLDER)
        picture.canvas.draw()
    return picture


def words(picture: Figure) -> set[str]:
    return {text.get_text() for text in picture.findobj(Text) if isinstance(text, Text) and text.get_text()}


def curves(axes: Axes) -> dict[str, tuple[list[float], list[float]]]:
    """By colour and marker, in data; entries of the legend are elsewhere, and the level of chance has no marker."""
    lines = [line for line in axes.lines if line.get_marker() not in {"", "None"}]
    return {f"{line.get_color()}{line.get_marker()}": data(line) for line in lines}


def data(line: Line2D) -> tuple[list[float], list[float]]:
    x, y = line.get_data()
    return np.asarray(x, dtype=float).tolist(), np.asarray(y, dtype=float).tolist()


def bands(axes: Axes) -> list[object]:
    return [path for each in axes.collections if isinstance(each, PolyCollection) for path in each.get_paths()]


def test_loss_and_accuracy_stand_against_updates_and_against_time(learning: "Synthetic") -> None:
    picture = drawn(found(learning))
    assert [(axes.get_ylabel(), axes.get_xlabel()) for axes in picture.axes] == [
        ("held-out loss, nats", "updates"),
        ("", "seconds of training"),
        ("held-out accuracy", "updates"),
        ("", "seconds of training"),
    ]
    assert picture.axes[0].get_title(loc="left") == "copy, N=128"


def test_panels_say_what_is_not_common_to_all(learning: "Synthetic") -> None:
    learning.trainings = tuple(Training(task=Task.COPY, updates=100, layers=layers) for layers in (1, 2))
    picture = drawn(found(learning))
    assert [axes.get_title(loc="left") for axes in picture.axes[::4]] == [f"copy, N=128, layers={n}" for n in (1, 2)]
    assert "causal, float32, AMD EPYC 9B14 (cpu)" in words(picture)


def test_each_trained_method_has_its_line_from_the_first_to_the_last_update_and_a_band(learning: "Synthetic") -> None:
    updates, seconds, *_ = drawn(found(learning)).axes
    assert len(curves(updates)) == len(bands(updates)) == 3
    assert {(x[0], x[-1], len(x)) for x, _ in curves(updates).values()} == {(0.0, 2000.0, 21)}
    assert curves(updates).keys() == curves(seconds).keys()
    assert [y for _, y in curves(updates).values()] == [y for _, y in curves(seconds).values()]
    assert len({x[-1] for x, _ in curves(seconds).values()}) == 3


def test_a_line_is_the_median_of_the_seeds(learning: "Synthetic") -> None:
    findings = found(learning)
    last = sorted(each[-1] for each in findings.summaries[0].series[LOSSES].values())
    assert last[1] in {y[-1] for _, y in curves(drawn(findings).axes[0]).values()}


def test_chance_is_dotted_at_its_level(learning: "Synthetic") -> None:
    picture = drawn(found(learning))
    dotted = [[data(line)[1] for line in axes.lines if line.get_linestyle() == ":"] for axes in picture.axes[::2]]
    levels = [[y[0] for y in each if len(set(y)) == 1] for each in dotted]
    assert levels == [[pytest.approx(2.302585)], [pytest.approx(0.1)]]
    assert "chance" in words(picture)


def test_who_has_no_curve_is_named_with_the_reason(learning: "Synthetic") -> None:
    said = words(drawn(found(learning)))
    assert "sparse.strided  budget: 40 of 2,000 updates in 300 s" in said
    assert "linformer.headwise  unsupported: it is not causal | no" in said


def test_a_record_without_a_curve_is_said_and_not_passed_over(learning: "Synthetic") -> None:
    findings = found(learning)
    first, *others = findings.summaries
    bare = Findings.over(findings.run, [replace(first, series={}), *others])
    assert "softmax.sdpa  no curve was recorded" in words(drawn(bare))


def test_what_failed_in_one_section_only_is_named_with_it(learning: "Synthetic") -> None:
    learning.lengths = (64, 128)
    picture = drawn(found(learning))
    assert {text for text in words(picture) if text.startswith("sparse.strided")} == {
        "sparse.strided",
        "sparse.strided  budget: 40 of 2,000 updates in 300 s (copy, N=128, causal, float32)",
    }
    assert len(picture.axes) == 8


def test_images_have_no_accuracy_to_show(picturing: "Synthetic") -> None:
    picture = drawn(found(picturing))
    assert [axes.get_xlabel() for axes in picture.axes] == ["updates", "seconds of training"]
    assert "train: held-out loss while it learns" in words(picture)


def test_a_run_of_which_nothing_was_trained_has_an_empty_panel(learning: "Synthetic") -> None:
    findings = Findings.of(learning.run(), [])
    assert "nothing was measured" in words(drawn(findings))
    assert "softmax.sdpa  not run: no record of this cell yet" in words(drawn(findings))
    assert "No method was trained to its end." in curves_caption(findings, findings.sections)


def test_of_very_many_methods_families_have_panels_of_their_own(learning: "Synthetic", law: "type[Law]") -> None:
    learning.laws = [law(f"{family}.{i}", 1e-3, 1.0) for family in ("a", "b") for i in range(10)]
    picture = drawn(found(learning))
    assert [axes.get_title(loc="left") for axes in picture.axes[::4]] == [f"copy, N=128, {family}" for family in ("a", "b")]


def test_the_caption_says_what_line_band_and_dots_are_and_where(learning: "Synthetic") -> None:
    findings = found(learning)
    text = curves_caption(findings, findings.sections)
    assert "Line: median of n = 3 seeds; band: smallest and largest seed; time: median of the seeds. Dotted: chance." in text
    assert "AMD EPYC 9B14" in text
    assert "unsupported: linformer.headwise at 128: it is not causal | no" in text
    learning.replicates = 1
    findings = found(learning)
    assert "n = 1 seed: no band." in curves_caption(findings, findings.sections)


def test_a_run_folder_gets_curves_once_and_drawings_only_where_some_were_asked_for(
    learning: "Synthetic", picturing: "Synthetic", small: "Synthetic"
) -> None:
    def kinds(run: "Synthetic") -> list[tuple[str, str]]:
        return [(plot.workload.value, plot.kind) for plot in plots(found(run))]

    assert kinds(learning) == [("train", "curves")]
    assert kinds(picturing) == [("train", "curves"), ("train", "drawings")]
    small.report = learning.report
    assert kinds(small) == []


def test_files_of_curves_are_in_all_formats_and_the_same_every_time(learning: "Synthetic") -> None:
    (first,), (second,) = plots(found(learning)), plots(found(learning))
    assert first.images.keys() == {"png", "svg", "pdf"}
    assert first == second


def moments(*values: float, seconds: float = 1.0) -> tuple[Moment, ...]:
    return tuple(Moment(10.0 * i, seconds * i, value, value, value) for i, value in enumerate(values))


def test_a_loss_that_falls_far_has_a_logarithmic_axis_and_another_a_linear_one() -> None:
    assert Height.of(LOSSES, [moments(2.3, 0.01)], 2.3).log
    near = Height.of(LOSSES, [moments(2.8, 0.9)], 2.83)
    assert not near.log
    assert near.low < 0.9 < 2.83 < near.high
    assert not Height.of(LOSSES, [moments(2.3, 0.0)], None).log


@pytest.mark.parametrize("curve", [moments(2.3, 0.01), moments(2.8, 0.9), moments(1.0, 1.0), ()])
def test_an_axis_has_ticks_within_it(curve: tuple[Moment, ...]) -> None:
    height = Height.of(LOSSES, [curve], None)
    assert height.low < height.high
    assert len(height.ticks) >= 2
    assert all(height.low <= value <= height.high for value, _ in height.ticks)


def test_accuracy_is_a_share_in_percent() -> None:
    assert [text for _, text in Height.of(CURVE_ACCURACY, [moments(0.1, 0.2)], 0.1).ticks][::4] == ["0%", "100%"]


@pytest.mark.parametrize(
    ("seconds", "name", "longest"),
    [(0.5, "seconds", 1.0), (100.0, "minutes", 200 / 60), (6000.0, "hours", 12000 / 3600), (60.0, "seconds", 120.0)],
)
def test_time_is_in_the_unit_of_which_training_takes_a_few(seconds: float, name: str, longest: float) -> None:
    way = Way.of_time([moments(2.0, 1.0, 0.5, seconds=seconds)])
    assert way.name == f"{name} of training"
    assert way.longest == pytest.approx(longest)


def test_a_file_of_data_is_named_without_its_folders(picturing: "Synthetic") -> None:
    picturing.trainings = (Training(task=Task.BYTES, data="/some/where/enwik8"),)
    findings = found(picturing)
    assert not any("/some" in text for text in words(drawn(findings)))
    assert "/some" not in curves_caption(findings, findings.sections)


def test_trainings_that_have_only_a_loss_stand_below_each_other(picturing: "Synthetic") -> None:
    narrow = replace(FOLDER, width=3.35)
    both = replace(picturing, trainings=(Training(task=Task.PIXELS), Training(task=Task.PIXELS, layers=2)))
    with style.applied():
        figures = grid.figures(curves_board(found(both), found(both).sections, narrow), narrow)
    assert sum(bool(axes.lines) for figure in figures for axes in figure.axes) == 2 * 2
