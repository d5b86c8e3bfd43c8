"""Learning curves and images that models drew: what stands where, and what is said of those that have none."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from attnbench.analyze.cells import LOSSES, CellSummary
from attnbench.report.drawing.sheet import FOLDER
from attnbench.report.figures.make import folder_files
from attnbench.report.findings import Findings
from attnbench.report.questions.learning.figure import Mosaic, mosaic
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.outcome import COMPLETED, DRAWN, GIVEN
from attnbench.schema.problem import Problem
from attnbench.schema.training import PIXELS, Task, Training
from tests.report.conftest import Law, Synthetic
from tests.report.drawn import drawings, found, pictures, title, words


def drawn(findings: Findings, kind: str = "curves") -> Figure:
    (picture,) = pictures(findings, kind)
    return picture


def without_series(findings: Findings, **facts: str) -> Findings:
    """The first method has recorded nothing over time."""
    first, *others = findings.summaries
    return Findings.over(findings.run, [replace(first, series={}, facts={**first.facts, **facts}), *others])


def caption(findings: Findings, kind: str = "curves") -> str:
    return drawings(findings, kind)[0].caption


def heads(picture: Figure) -> list[str]:
    return [axes.get_title(loc="left") for axes in picture.axes]


# curves


def curves(axes: Axes) -> dict[str, tuple[list[float], list[float]]]:
    """By colour and marker, in data; entries of the legend are elsewhere, and the level of chance has no marker."""
    lines = [line for line in axes.lines if line.get_marker() not in {"", "None", "x"}]
    return {f"{line.get_color()}{line.get_marker()}": data(line) for line in lines}


def data(line: Line2D) -> tuple[list[float], list[float]]:
    x, y = line.get_data()
    return np.asarray(x, dtype=float).tolist(), np.asarray(y, dtype=float).tolist()


def bands(axes: Axes) -> list[object]:
    return [path for each in axes.collections if isinstance(each, PolyCollection) for path in each.get_paths()]


def levels(picture: Figure) -> list[float]:
    """Where chance is dotted, by kind of panel."""
    dotted = [data(line)[1] for axes in picture.axes[::2] for line in axes.lines if line.get_linestyle() == ":"]
    return [heights[0] for heights in dotted if len(set(heights)) == 1]


def test_loss_and_accuracy_stand_against_updates_and_against_time_and_chance_is_dotted(learning: Synthetic) -> None:
    picture = drawn(found(learning))
    assert [(axes.get_ylabel(), axes.get_xlabel()) for axes in picture.axes] == [
        ("held-out loss, nats", "updates"),
        ("", "seconds of training"),
        ("held-out accuracy", "updates"),
        ("", "seconds of training"),
    ]
    assert heads(picture)[0] == "copy, N=128"
    assert {"0%", "100%"} <= {label.get_text() for label in picture.axes[2].get_yticklabels()}
    assert levels(picture) == pytest.approx([2.302585, 0.1])
    assert "chance" in words(picture)


def test_panels_say_what_is_not_common_to_all(learning: Synthetic) -> None:
    learning.trainings = tuple(Training(task=Task.COPY, updates=100, layers=layers) for layers in (1, 2))
    picture = drawn(found(learning))
    assert heads(picture)[::4] == [f"copy, N=128, layers={n}" for n in (1, 2)]
    assert title(picture)[1] == "causal, float32, AMD EPYC 9B14 (cpu)"


def test_each_trained_method_has_a_line_of_medians_from_the_first_to_the_last_update_and_a_band(learning: Synthetic) -> None:
    findings = found(learning)
    updates, seconds, *_ = drawn(findings).axes
    assert len(curves(updates)) == len(bands(updates)) == 3
    assert {(x[0], x[-1], len(x)) for x, _ in curves(updates).values()} == {(0.0, 2000.0, 21)}
    assert curves(updates).keys() == curves(seconds).keys()
    assert [y for _, y in curves(updates).values()] == [y for _, y in curves(seconds).values()]
    assert len({x[-1] for x, _ in curves(seconds).values()}) == 3
    # the median of three seeds
    last = sorted(each[-1] for each in findings.summaries[0].series[LOSSES].values())
    assert last[1] in {y[-1] for _, y in curves(updates).values()}


def test_who_has_no_curve_is_named_with_the_reason_and_where_nobody_has_one_the_panel_is_empty(learning: Synthetic) -> None:
    assert {
        "softmax.sdpa: no curve was recorded",
        "sparse.strided: budget: 40 of 2,000 updates in 300 s",
        "linformer.headwise: unsupported: it is not causal | no",
    } <= set(words(drawn(without_series(found(learning)))))
    nothing = Findings.of(learning.run(), [])
    assert {"nothing was measured", "softmax.sdpa: not run: no record of this cell yet"} <= set(words(drawn(nothing)))
    assert "No method was trained to its end." in caption(nothing)


def test_what_failed_in_one_section_only_is_named_with_it(learning: Synthetic) -> None:
    learning.lengths = (64, 128)
    picture = drawn(found(learning))
    assert {text for text in words(picture) if text.startswith("sparse.strided")} == {
        "sparse.strided",
        "sparse.strided: budget: 40 of 2,000 updates in 300 s (copy, N=128, causal, float32)",
    }
    assert len(picture.axes) == 8


def test_speech_shows_its_errors_and_images_have_no_accuracy_to_show(hearing: Synthetic, picturing: Synthetic) -> None:
    heard, pictured = drawn(found(hearing)), drawn(found(picturing))
    assert title(heard)[0] == "train: held-out loss and error rate while it learns"
    assert [axes.get_ylabel() for axes in heard.axes[::2]] == ["held-out loss, nats", "held-out error rate"]
    assert {"0%", "100%"} <= {label.get_text() for label in heard.axes[2].get_yticklabels()}
    assert levels(heard)[-1] == 1.0
    assert title(pictured)[0] == "train: held-out loss while it learns"
    assert [axes.get_xlabel() for axes in pictured.axes] == ["updates", "seconds of training"]


def test_of_very_many_methods_families_have_panels_of_their_own(learning: Synthetic) -> None:
    learning.laws = [Law(f"{family}.{i}", 1e-3, 1.0) for family in ("a", "b") for i in range(10)]
    picture = drawn(found(learning))
    assert heads(picture)[::4] == ["copy, N=128, a (1 of 2)", "copy, N=128, b (2 of 2)"]


def test_the_caption_says_what_line_band_and_dots_are_and_where(learning: Synthetic) -> None:
    text = caption(found(learning))
    assert "Line: median of n = 3 seeds; band: smallest and largest seed; time: median of the seeds. Dotted: chance." in text
    assert "AMD EPYC 9B14" in text
    assert "unsupported: linformer.headwise at 128: it is not causal | no" in text
    learning.replicates = 1
    assert "n = 1 seed: no band." in caption(found(learning))


def test_a_run_folder_gets_curves_once_and_drawings_only_where_some_were_asked_for(
    learning: Synthetic, picturing: Synthetic, small: Synthetic
) -> None:
    def kinds(run: Synthetic) -> set[str]:
        return {name.partition(".")[0] for name in folder_files(found(run))}

    assert kinds(learning) == {"train/curves"}
    assert kinds(picturing) == {"train/curves", "train/drawings"}
    small.report = learning.report
    assert kinds(small) == set()


def test_a_loss_that_falls_far_has_a_logarithmic_axis_and_another_a_linear_one(learning: Synthetic) -> None:
    for learns, scale in ((0.5, "linear"), (0.001, "log")):
        for each in learning.laws:
            each.learns = learns
        assert drawn(found(learning)).axes[0].get_yscale() == scale


@pytest.mark.parametrize(("seconds", "unit"), [(3e-3, "seconds"), (0.1, "minutes"), (9.0, "hours")])
def test_time_is_in_the_unit_of_which_training_takes_a_few(learning: Synthetic, seconds: float, unit: str) -> None:
    for each in learning.laws:
        each.seconds = seconds
    learning.lengths = (1024,)
    assert drawn(found(learning)).axes[1].get_xlabel() == f"{unit} of training"


def test_a_file_of_data_is_named_without_its_folders(picturing: Synthetic) -> None:
    picturing.trainings = (Training(task=Task.BYTES, data="/some/where/enwik8"),)
    findings = found(picturing)
    assert not any("/some" in text for text in words(drawn(findings)))
    assert "/some" not in caption(findings)


def test_trainings_that_have_only_a_loss_stand_below_each_other(picturing: Synthetic) -> None:
    both = replace(picturing, trainings=(Training(task=Task.PIXELS), Training(task=Task.PIXELS, layers=2)))
    figures = pictures(found(both), "curves", replace(FOLDER, width=3.35))
    assert sum(axes.has_data() for figure in figures for axes in figure.axes) == 2 * 2


# images


def images(data: str, count: int, **values: list[float]) -> CellSummary:
    """One after the other rising levels, unless they are given."""
    rows, columns, levels = PIXELS[data]
    problem = Problem(N=rows * columns, causal=True)
    model = Training(task=Task.PIXELS, data=data, drawings=count)
    cell = Cell(method="m", problem=problem, workload=Workload.TRAIN, training=model)
    rising = [float(i % levels) for i in range(count * rows * columns)]
    series = {name: {0: tuple(values.get(name, rising)), 1: (1.0,)} for name in (GIVEN, COMPLETED, DRAWN)}
    return CellSummary(cell, "ok", series=series, facts={"image_rows": rows, "image_columns": columns, "levels": levels})


def laid(cell: CellSummary) -> Mosaic:
    made = mosaic(cell)
    assert made is not None
    return made


def test_what_was_given_completed_and_drawn_stand_below_each_other_from_black_to_white() -> None:
    made = laid(images("digits", 2, drawn=[16.0] * 128))
    assert list(made.tops.items()) == [(GIVEN, 0), (COMPLETED, 9), (DRAWN, 18)]
    assert made.lefts == (0, 9)
    assert made.pixels.shape == (26, 17, 4)
    np.testing.assert_allclose(made.pixels[0, :8, 0], np.arange(8) / 16)
    np.testing.assert_allclose(made.pixels[18:, 9:, :3], 1.0)
    # the ground shows between images
    assert set(np.unique(made.pixels[..., 3])) == {0.0, 1.0}
    assert (made.pixels[:, 8, 3] == 0).all()
    # the given half ends below the fourth of the eight rows of what was completed
    assert made.given_ends == [((-0.5, 12.5), (7.5, 12.5)), ((8.5, 12.5), (16.5, 12.5))]


def test_three_columns_for_one_are_the_colours_of_a_pixel() -> None:
    pixel = [0.0] * 3072
    # the second pixel of the first row is green
    pixel[4] = 255.0
    made = laid(images("cifar10", 1, given=pixel))
    assert made.columns == 32
    np.testing.assert_allclose(made.pixels[0, 1], [0.0, 1.0, 0.0, 1.0])
    np.testing.assert_allclose(made.pixels[0, 0], [0.0, 0.0, 0.0, 1.0])


@pytest.mark.parametrize(
    "cell",
    [
        images("digits", 0),
        images("digits", 1, drawn=[1.0] * 63),
        replace(images("digits", 1), status="crashed"),
        replace(images("digits", 1), facts={}),
        replace(images("digits", 1), facts={"image_rows": 0, "image_columns": 8, "levels": 17}),
        replace(images("digits", 1), series={}),
    ],
    ids=["none", "a part", "failed", "no size", "no rows", "no pixels"],
)
def test_without_whole_images_of_all_kinds_there_is_no_picture(cell: CellSummary) -> None:
    assert mosaic(cell) is None


def test_each_method_has_a_panel_with_its_name_and_square_pixels(picturing: Synthetic) -> None:
    picture = drawn(found(picturing), "drawings")
    assert heads(picture) == ["softmax.sdpa", "linear.chunked(chunk=64)"]
    first = picture.axes[0]
    assert [label.get_text() for label in first.get_yticklabels()] == ["given", "completed", "drawn"]
    assert first.images[0].get_interpolation() == "nearest"
    (lines,) = [each for each in first.collections if isinstance(each, LineCollection)]
    assert len(lines.get_segments()) == 6
    width, height = picture.get_size_inches()
    for axes in picture.axes:
        rows, columns, _ = axes.images[0].get_array().shape  # type: ignore[union-attr]
        box = axes.get_position()
        assert box.width * width / columns == pytest.approx(box.height * height / rows)


def test_who_drew_nothing_is_named_with_the_reason(picturing: Synthetic) -> None:
    findings = found(picturing)
    assert "sparse.strided: error: the loss is no number after update 12" in words(drawn(findings, "drawings"))
    bare, refused = without_series(findings), without_series(findings, not_drawn="no shorter length")
    assert "softmax.sdpa: no images were recorded" in words(drawn(bare, "drawings"))
    assert "softmax.sdpa: no shorter length" in words(drawn(refused, "drawings"))
    assert "nothing was drawn" in words(drawn(Findings.of(picturing.run(), []), "drawings"))


def test_the_caption_says_which_images_they_are_and_how_many_of_them_have_room(picturing: Synthetic) -> None:
    text = caption(found(picturing), "drawings")
    assert "after its last update, the first of n = 3 seeds. AMD EPYC 9B14." in text
    assert "completed: the half above the line was given" in text
    assert "The first" not in text
    picturing.trainings = (Training(task=Task.PIXELS, updates=2000, drawings=20),)
    assert "The first 8 of 20 of each." in caption(found(picturing), "drawings")
    assert len(laid(images("digits", 20)).lefts) == 8
