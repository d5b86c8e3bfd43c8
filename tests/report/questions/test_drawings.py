"""Images that models drew: whose pixels stand where, in which light, and what is said where there are none."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.text import Text

from attnbench.analyze.cells import CellSummary
from attnbench.report.drawing import grid, style
from attnbench.report.drawing.sheet import FOLDER
from attnbench.report.findings import Findings
from attnbench.report.questions.learning.drawings import drawings_board, drawings_caption, drawings_wanted
from attnbench.report.questions.learning.pixels import MOST, mosaic
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.outcome import COMPLETED, DRAWN, GIVEN
from attnbench.schema.problem import Problem
from attnbench.schema.training import PIXELS, Task, Training

if TYPE_CHECKING:
    from tests.report.conftest import Synthetic


def found(run: "Synthetic") -> Findings:
    return Findings.of(run.run(), run.records())


def figure(findings: Findings) -> Figure:
    with style.applied():
        (picture,) = grid.figures(drawings_board(findings, drawings_wanted(findings.sections), FOLDER), FOLDER)
        picture.canvas.draw()
    return picture


def words(picture: Figure) -> set[str]:
    return {text.get_text() for text in picture.findobj(Text) if isinstance(text, Text) and text.get_text()}


def images(data: str, count: int, **values: list[float]) -> CellSummary:
    """One after the other rising levels, unless they are given."""
    rows, columns, levels = PIXELS[data]
    problem = Problem(N=rows * columns, causal=True)
    model = Training(task=Task.PIXELS, data=data, drawings=count)
    cell = Cell(method="m", problem=problem, workload=Workload.TRAIN, training=model)
    rising = [float(i % levels) for i in range(count * rows * columns)]
    series = {name: {0: tuple(values.get(name, rising)), 1: (1.0,)} for name in (GIVEN, COMPLETED, DRAWN)}
    return CellSummary(cell, "ok", series=series, facts={"image_rows": rows, "image_columns": columns, "levels": levels})


def test_what_was_given_completed_and_drawn_stand_below_each_other() -> None:
    drawn = [16.0] * 128
    made = mosaic(images("digits", 2, drawn=drawn))
    assert made is not None
    assert list(made.tops.items()) == [(GIVEN, 0), (COMPLETED, 9), (DRAWN, 18)]
    assert made.lefts == (0, 9)
    assert made.pixels.shape == (26, 17, 4)
    np.testing.assert_allclose(made.pixels[0, :8, 0], np.arange(8) / 16)
    np.testing.assert_allclose(made.pixels[18:, 9:, :3], 1.0)


def test_levels_go_from_black_to_white_and_the_ground_shows_between_images() -> None:
    made = mosaic(images("mnist", 3))
    assert made is not None
    assert (made.pixels[..., :3].min(), made.pixels[..., :3].max()) == (0.0, 1.0)
    assert set(np.unique(made.pixels[..., 3])) == {0.0, 1.0}
    assert (made.pixels[:, 28:31, 3] == 0).all()


def test_three_columns_for_one_are_the_colours_of_a_pixel() -> None:
    pixel = [0.0] * 3072
    # the second pixel of the first row is green
    pixel[4] = 255.0
    made = mosaic(images("cifar10", 1, given=pixel))
    assert made is not None
    assert made.columns == 32
    np.testing.assert_allclose(made.pixels[0, 1], [0.0, 1.0, 0.0, 1.0])
    np.testing.assert_allclose(made.pixels[0, 0], [0.0, 0.0, 0.0, 1.0])


def test_the_given_half_ends_where_a_line_says() -> None:
    made = mosaic(images("digits", 2))
    assert made is not None
    # below the fourth of the eight rows of what was completed
    assert made.given_ends == [((-0.5, 12.5), (7.5, 12.5)), ((8.5, 12.5), (16.5, 12.5))]


def test_no_more_images_are_shown_than_have_room() -> None:
    made = mosaic(images("digits", 20))
    assert made is not None
    assert len(made.lefts) == MOST


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
)
def test_without_whole_images_of_all_kinds_there_is_no_picture(cell: CellSummary) -> None:
    assert mosaic(cell) is None


def test_each_method_has_a_panel_with_its_name(picturing: "Synthetic") -> None:
    picture = figure(found(picturing))
    assert [axes.get_title(loc="left") for axes in picture.axes] == ["softmax.sdpa", "linear.chunked(chunk=64)"]
    first = picture.axes[0]
    assert [label.get_text() for label in first.get_yticklabels()] == ["given", "completed", "drawn"]
    (pixels,) = first.images
    assert pixels.get_interpolation() == "nearest"
    (lines,) = [each for each in first.collections if isinstance(each, LineCollection)]
    assert len(lines.get_segments()) == 6


def test_pixels_are_square(picturing: "Synthetic") -> None:
    picture = figure(found(picturing))
    width, height = picture.get_size_inches()
    for axes in picture.axes:
        rows, columns, _ = axes.images[0].get_array().shape  # type: ignore[union-attr]
        box = axes.get_position()
        assert box.width * width / columns == pytest.approx(box.height * height / rows)


def test_who_drew_nothing_is_named_with_the_reason(picturing: "Synthetic") -> None:
    assert "sparse.strided  error: the loss is no number after update 12" in words(figure(found(picturing)))
    findings = found(picturing)
    first, *others = findings.summaries
    bare = Findings.over(findings.run, [replace(first, series={}), *others])
    assert "softmax.sdpa  no images were recorded" in words(figure(bare))
    facts = {**first.facts, "not_drawn": "no shorter length"}
    refused = Findings.over(findings.run, [replace(first, series={}, facts=facts), *others])
    assert "softmax.sdpa  no shorter length" in words(figure(refused))


def test_a_run_of_which_nothing_was_drawn_says_so(picturing: "Synthetic") -> None:
    assert "nothing was drawn" in words(figure(Findings.of(picturing.run(), [])))


def test_the_caption_says_which_images_they_are_and_where(picturing: "Synthetic") -> None:
    findings = found(picturing)
    text = drawings_caption(findings, findings.sections)
    assert "after its last update, the first of n = 3 seeds. AMD EPYC 9B14." in text
    assert "completed: the half above the line was given" in text
    assert "The first" not in text
    picturing.trainings = (Training(task=Task.PIXELS, updates=2000, drawings=20),)
    findings = found(picturing)
    assert "The first 8 of 20 of each." in drawings_caption(findings, findings.sections)


def test_models_that_were_not_to_draw_have_no_figure(learning: "Synthetic") -> None:
    assert drawings_wanted(found(learning).sections) == []
