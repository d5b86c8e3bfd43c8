"""Pictures of weights: what is white, what is grey, which heads share a panel, and what the notes say."""

from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from numpy.typing import NDArray

from attnbench.report.figures.weights import Picture, figure

pytestmark = pytest.mark.usefixtures("settings")


def uniform(seen: Any) -> NDArray[np.floating[Any]]:
    """Rows of equal weights over what is seen, bool [..., N, N]."""
    mask = np.asarray(seen, dtype=float)
    found: NDArray[np.floating[Any]] = mask / np.maximum(mask.sum(-1, keepdims=True), 1)
    return found


def picture(weights: NDArray[np.floating[Any]], causal: bool = False) -> Picture:
    return Picture("m.x(stride=4)", "N=8", weights, causal)


def titles(weights: NDArray[np.floating[Any]], causal: bool = False) -> list[str]:
    return [axes.get_title(loc="left") for axes in panels(figure(picture(weights, causal)))]


def panels(drawn: Figure) -> list[Axes]:
    return [axes for axes in drawn.axes if axes.get_xlabel() == "key j"]


def words(drawn: Figure) -> str:
    return " ".join(text.get_text() for text in drawn.texts)


def pixels(shown: Picture, panel: int = 0) -> NDArray[np.uint8]:
    """The middle of each cell of a panel, [N, N, 3], as printed."""
    drawn = figure(shown)
    N = shown.weights.shape[-1]
    canvas: Any = FigureCanvasAgg(drawn)
    drawn.set_dpi(200)
    canvas.draw()
    printed = np.asarray(canvas.buffer_rgba())[..., :3]
    box = panels(drawn)[panel].get_window_extent()
    across = box.x0 + (np.arange(N) + 0.5) * box.width / N
    down = printed.shape[0] - (box.y1 - (np.arange(N) + 0.5) * box.height / N)
    found: NDArray[np.uint8] = printed[np.ix_(down.astype(int), across.astype(int))]
    return found


BAND = np.tril(np.ones((64, 64))) - np.tril(np.ones((64, 64)), -5)


@pytest.mark.parametrize("N", [1, 2, 63, 64, 256, 257])
def test_exactly_what_has_weight_is_coloured_and_what_is_later_is_grey(N: int) -> None:
    seen = np.tril(np.random.default_rng(0).random((N, N)) < 0.4)
    found = pixels(picture(uniform(seen)[None], causal=True))
    later = np.triu(np.ones((N, N), dtype=bool), 1)
    assert (found[later] == 0xE4).all()
    assert (found[~later & ~seen] == 255).all()
    assert (found[seen].min(-1) < 200).all()


def test_a_row_is_scaled_by_its_largest_weight_next_to_nothing_is_not_white_and_without_causality_nothing_is_grey() -> None:
    large, little = (pixels(picture(scale * np.eye(8)[None])) for scale in (1, 1e-5))
    assert np.array_equal(large, little)
    assert (large[~np.eye(8, dtype=bool)] == 255).all()
    weights = np.full((1, 4, 4), 1e-30)
    weights[..., 0] = 1
    assert (pixels(picture(weights)).min(-1) < 200).all()


def test_heads_that_see_the_same_share_a_panel_and_those_that_differ_have_one_together_too() -> None:
    assert titles(uniform(BAND)[None]) == [f"the head\n310 pairs, {100 * 310 / 4096:.3g}%"]
    alike = uniform(np.stack([BAND] * 4))
    assert titles(alike, causal=True) == [f"all heads\n310 pairs, {100 * 310 / 2080:.3g}%"]
    assert "All heads see the same keys: their mean is shown." in words(figure(picture(alike, causal=True)))
    mixed = titles(uniform(np.stack([BAND, np.tril(np.ones((64, 64))), BAND])), causal=True)
    assert [title.split("\n")[0] for title in mixed] == ["heads 0, 2", "head 1", "all heads"]
    assert mixed[-1].endswith("2,080 pairs, 100%")


def test_negative_weights_get_two_colours_and_a_word() -> None:
    weights = np.zeros((1, 4, 4))
    weights[0, :, 0], weights[0, :, 1] = 1, -1
    found = pixels(picture(weights)).astype(int)
    assert (found[:, 0, 2] > found[:, 0, 0]).all()
    assert (found[:, 1, 0] > found[:, 1, 2]).all()
    assert (found[:, 2:] == 255).all()
    assert "Some weights are negative: red. Rows are not normalised: they sum to 0 to 0." in words(figure(picture(weights)))


def test_rows_that_do_not_sum_to_one_and_rows_that_see_nothing_are_told() -> None:
    weights = 2 * uniform(np.tril(np.ones((2, 8, 8)), -1))
    said = words(figure(picture(weights)))
    assert "they sum to 2 to 2." in said
    assert "2 of 16 queries (of all heads) see no key." in said
    assert "sum" not in words(figure(picture(uniform(np.tril(np.ones((2, 8, 8)), -1)))))


def test_axes_are_queries_down_and_keys_across_in_letters_of_seven_points_or_more() -> None:
    drawn = figure(picture(uniform(np.stack([BAND, np.eye(64)]))))
    first, *others = panels(drawn)
    assert (first.get_ylabel(), [int(tick) for tick in first.get_xticks()]) == ("query i", [0, 16, 32, 48])
    assert first.get_ylim()[0] > first.get_ylim()[1]
    assert {axes.get_ylabel() for axes in others} == {""}
    assert min(float(text.get_fontsize()) for text in drawn.findobj(Text) if isinstance(text, Text)) >= 7


@pytest.mark.parametrize("heads", [1, 5, 16])
@pytest.mark.parametrize("N", [1, pytest.param(64, marks=pytest.mark.slow), 257])
def test_panels_touch_neither_each_other_nor_the_edge(heads: int, N: int) -> None:
    weights = np.stack([np.eye(N) + (h + 1 < N) * np.eye(N, k=-h - 1) for h in range(heads)])
    title = "sparse.fixed(c=4, distinct=False, layer=1, mode=by_layer, stride=16)"
    drawn = figure(Picture(title, "non-causal, " * 9, weights / 2, causal=False))
    canvas: Any = FigureCanvasAgg(drawn)
    canvas.draw()
    renderer = canvas.get_renderer()
    boxes = [axes.get_tightbbox(renderer) for axes in drawn.axes]
    texts = [text.get_window_extent(renderer) for text in drawn.texts]
    found = [box for box in (*boxes, *texts) if box is not None]
    assert all(box.x0 >= 0 and box.x1 <= drawn.bbox.width and box.y0 >= 0 and box.y1 <= drawn.bbox.height for box in found)
    assert not any(a.overlaps(b) for i, a in enumerate(found) for b in found[:i])
