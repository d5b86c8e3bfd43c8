"""What a run that trains ends in: tables, lines on the terminal, columns, learning curves, and images that models drew."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from attnbench.analyze.cells import LOSSES, CellSummary
from attnbench.report import console
from attnbench.report.conditions import measured
from attnbench.report.drawing.sheet import FOLDER
from attnbench.report.figures.make import folder_files
from attnbench.report.findings import Findings
from attnbench.report.questions.learning.figure import Mosaic, mosaic
from attnbench.report.tables import tables
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.outcome import COMPLETED, DRAWN, GIVEN
from attnbench.schema.problem import Problem
from attnbench.schema.suite import ReportSpec
from attnbench.schema.training import PIXELS, Task, Training
from tests.report.conftest import Law, Synthetic
from tests.report.drawn import drawings, found, pictures, words


def test_each_length_and_each_model_has_a_table_of_its_own(learning: Synthetic) -> None:
    learning.lengths = (64, 128)
    learning.trainings = tuple(Training(task=Task.COPY, updates=100, recompute=again) for again in (False, True))
    titles = [table.title for table in tables(found(learning))]
    assert sorted(titles) == sorted(
        f"Training: copy, N={N}, causal, float32, {words}gradient checkpointing" for N in (64, 128) for words in ("no ", "")
    )


@pytest.mark.parametrize("seed", [0, 2])
def test_a_resumed_training_is_said_whichever_seed_it_was(learning: Synthetic, seed: int) -> None:
    records = [
        record.model_copy(update={"outcome": outcome.model_copy(update={"flags": (*outcome.flags, "resumed")})})
        if (outcome := record.outcome).kind == "measured" and record.job.replicate == seed
        else record
        for record in learning.records()
    ]
    lines = measured(Findings.of(learning.run(), records))
    assert any("Resumed from a checkpoint, which changes no weight: softmax.sdpa" in line for line in lines)


def test_a_run_of_which_nothing_was_trained_has_all_its_rows(learning: Synthetic) -> None:
    nothing = Findings.of(learning.run(), [])
    (table,) = tables(nothing)
    assert ({row[3] for row in table.rows}, table.bold) == ({"not run"}, frozenset())
    assert table.notes[-1] == "No cell gave a number."
    assert "not run" in console.summary(nothing)


@pytest.mark.parametrize("unicode", [True, False])
def test_the_terminal_is_80_columns_wide_whatever_the_names(learning: Synthetic, unicode: bool) -> None:
    laws = [Law(f"family.{'long' * 20}{i}", 1e-3, 1.0, {"chunk": 64}, learns=0.2 + 0.01 * i) for i in range(30)]
    learning.laws = [*laws, Law("中文|<b>\x1b[31m", 1e-3, 1.0)]
    text = console.summary(found(learning), unicode=unicode)
    assert max(map(len, text.splitlines())) <= 80
    assert "and 7 more methods, behind at 128 or without a number there: see table.md" in text
    assert "\x1b" not in text
    assert unicode or text.isascii()


def test_time_and_memory_by_length_are_per_sequence_where_a_suite_asks_for_them(learning: Synthetic) -> None:
    learning.report = ReportSpec(tables=("time", "memory", "state", "fidelity"))
    titles = [table.title.partition(":")[0] for table in tables(found(learning))]
    assert titles == ["Time per sequence", "Memory per sequence (host_rss_peak)"]


# curves


def drawn(findings: Findings, kind: str = "curves") -> Figure:
    (picture,) = pictures(findings, kind)
    return picture


def without_series(findings: Findings, **facts: str) -> Findings:
    """The first method has recorded nothing over time."""
    first, *others = findings.summaries
    return Findings.over(findings.run, [replace(first, series={}, facts={**first.facts, **facts}), *others])


def caption(findings: Findings, kind: str = "curves") -> str:
    return drawings(findings, kind)[0].caption


def curves(axes: Axes) -> dict[str, tuple[list[float], list[float]]]:
    """By colour and marker, in data; entries of the legend are elsewhere, and the level of chance has no marker."""
    lines = [line for line in axes.lines if line.get_marker() not in {"", "None", "x"}]
    return {f"{line.get_color()}{line.get_marker()}": data(line) for line in lines}


def data(line: Line2D) -> tuple[list[float], list[float]]:
    x, y = line.get_data()
    return np.asarray(x, dtype=float).tolist(), np.asarray(y, dtype=float).tolist()


def test_chance_is_dotted_at_its_level(learning: Synthetic) -> None:
    def levels() -> list[float]:
        every = (line for axes in drawn(found(learning)).axes[::2] for line in axes.lines if line.get_linestyle() == ":")
        return [heights[0] for _, heights in map(data, every) if len(set(heights)) == 1]

    assert levels() == pytest.approx([2.302585, 0.1])
    # of speech all is wrong
    learning.causal, learning.trainings = (False,), (Training(task=Task.SPEECH, updates=2000, late_from=1500),)
    assert levels()[-1] == 1.0


def test_each_trained_method_has_a_line_of_medians_from_the_first_to_the_last_update_and_a_band(learning: Synthetic) -> None:
    findings = found(learning)
    updates, seconds, *_ = drawn(findings).axes
    bands = [path for each in updates.collections if isinstance(each, PolyCollection) for path in each.get_paths()]
    assert len(curves(updates)) == len(bands) == 3
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


def test_a_folder_gets_curves_once_and_drawings_if_wanted(learning: Synthetic, picturing: Synthetic, small: Synthetic) -> None:
    def kinds(run: Synthetic) -> set[str]:
        return {name.partition(".")[0] for name in folder_files(found(run))}

    assert kinds(learning) == {"train/curves"}
    assert kinds(picturing) == {"train/curves", "train/drawings"}
    small.report = learning.report
    assert kinds(small) == set()


@pytest.mark.parametrize(
    ("learns", "scale", "seconds", "unit"),
    [(0.5, "linear", 3e-3, "seconds"), (0.001, "log", 0.1, "minutes"), (0.001, "log", 9.0, "hours")],
)
def test_a_loss_that_falls_far_has_a_logarithmic_axis_and_time_the_unit_of_which_training_takes_a_few(
    learning: Synthetic, learns: float, scale: str, seconds: float, unit: str
) -> None:
    learning.laws = [replace(law, learns=learns, seconds=seconds) for law in learning.laws]
    learning.lengths = (1024,)
    loss, time, *_ = drawn(found(learning)).axes
    assert (loss.get_yscale(), time.get_xlabel()) == (scale, f"{unit} of training")


def test_a_file_of_data_is_named_without_its_folders(picturing: Synthetic) -> None:
    picturing.trainings = (Training(task=Task.BYTES, data="/some/where/enwik8"),)
    assert not [text for text in (*words(drawn(found(picturing))), caption(found(picturing))) if "/some" in text]


def test_trainings_that_have_only_a_loss_stand_below_each_other(picturing: Synthetic) -> None:
    picturing.trainings = (Training(task=Task.PIXELS), Training(task=Task.PIXELS, layers=2))
    figures = pictures(found(picturing), "curves", replace(FOLDER, width=3.35))
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
    assert list(made.middles.items()) == [(GIVEN, 3.5), (COMPLETED, 12.5), (DRAWN, 21.5)]
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
    assert made.pixels.shape[1] == 32
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


def test_each_method_has_a_panel_of_square_pixels_with_a_line_where_what_was_given_ends(picturing: Synthetic) -> None:
    picture = drawn(found(picturing), "drawings")
    first = picture.axes[0]
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
    bare, refused = without_series(findings), without_series(findings, not_drawn="no shorter length")
    assert "softmax.sdpa: no images were recorded" in words(drawn(bare, "drawings"))
    assert "softmax.sdpa: no shorter length" in words(drawn(refused, "drawings"))
    assert "nothing was drawn" in words(drawn(Findings.of(picturing.run(), []), "drawings"))


def test_no_more_images_are_shown_than_have_room_and_that_is_said(picturing: Synthetic) -> None:
    picturing.trainings = (Training(task=Task.PIXELS, updates=2000, drawings=20),)
    assert "The first 8 of 20 of each." in caption(found(picturing), "drawings")
    assert len(laid(images("digits", 20)).given_ends) == 8
