"""Trends as people see them: on a terminal, as a page, as a picture; whatever is in a name is inert."""

import json
import math
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnbench.analyze.trend import Trends, look, quantity_called
from attnbench.report.questions.trend.chart import FORMATS, MOST, POINTS, draw, figure, image
from attnbench.report.questions.trend.names import track_names
from attnbench.report.questions.trend.page import MOST as MOST_CHARTS
from attnbench.report.questions.trend.page import page
from attnbench.report.questions.trend.words import about, console, could_show, trend_json, worst_first
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.history import Entry, Floats, Track
from attnbench.schema.problem import Problem
from tests.analyze.conftest import track_of
from tests.report.page.reading import parsed
from tests.report.stored import as_stored

MACHINE = "AMD EPYC 9B14, 2 cores, 2 threads"


def entries(count: int) -> list[Entry]:
    """A run a day; on the thirtieth day torch and the source of one method are others."""
    return [
        Entry(
            place=f"nightly/run{i}",
            suite="nightly",
            run=f"202601{i:02}-030405-abcdef",
            started=f"{np.datetime64('2026-01-01') + i}T03:04:05+00:00",
            machine=MACHINE,
            commit=f"{i:02}" * 20,
            dirty=i == 30,
            facts={"processor": "AMD EPYC 9B14", "torch": "2.13.0" if i >= 30 else "2.12.1"},
            methods={"linear.chunked": f"attnbench 0.1.0, source {'b' if i >= 30 else 'a'}"},
            ok=4,
        )
        for i in range(count)
    ]


def cell(method: str, N: int = 4096, workload: Workload = Workload.FORWARD, **params: int) -> Cell:
    return Cell(method=method, problem=Problem(N=N, causal=True), workload=workload, params=dict(params))


track = partial(track_of, suite="nightly", machine=MACHINE, failure=("oom_host", "out of memory"))


def noisy(levels: Sequence[float], sizes: Sequence[int], seed: int = 1) -> Floats:
    values: Floats = np.repeat(levels, sizes) * np.exp(np.random.default_rng(seed).normal(0, 0.02, sum(sizes)))
    return values


def some() -> list[Track]:
    """What became slower and faster with one run, was lost, came back, stayed, and never ran."""
    lost = noisy([0.09], [60], 3)
    lost[55:] = math.nan
    back = noisy([0.2], [60], 4)
    back[10:20] = math.nan
    return [
        track(cell("linear.chunked", chunk=64), noisy([0.0123, 0.0141], [30, 30])),
        track(cell("linear.chunked", 1024, chunk=64), noisy([0.0031, 0.0025], [30, 30], 2)),
        track(cell("softmax.naive", 16384), lost, failure=("oom_host", "memory limit of 17.2 GB reached")),
        track(cell("softmax.sdpa"), back),
        track(cell("softmax.sdpa", workload=Workload.FORWARD_BACKWARD), noisy([0.5], [60], 5)),
        track(cell("lsh.reformer"), [math.nan] * 60),
    ]


def seen(tracks: Sequence[Track], metric: str = "time", runs: int = 60, **more: str) -> Trends:
    return look(entries(runs), tracks, quantity_called(metric), 0.05, **more)


@pytest.fixture
def trends() -> Trends:
    """Of every kind one."""
    broken = Entry("nightly/20260301-000000-ffffff", problem="run.json: Invalid JSON: EOF while parsing")
    return look([*entries(60), broken], some(), quantity_called("time"), 0.05)


def of_another_size(metric: str, factor: float) -> Trends:
    return seen([replace(each, values=each.values * factor) for each in some()], metric)


UP, FLAKY, HIGHER = noisy([0.01, 0.02], [30, 30]), [0.01] * 5 + [math.nan] + [0.01] * 5, np.repeat([1.0, 1.6], 6)
SCENES: dict[str, Callable[[], Trends]] = {
    "memory": lambda: of_another_size("memory", 1e10),
    "tokens": lambda: of_another_size("tokens", 1e5),
    "accuracy": lambda: of_another_size("accuracy", 1.0),
    "torch_profiler_peak": lambda: of_another_size("torch_profiler_peak", 1e10),
    # too short, failed once, never ran
    "nothing_said_of": lambda: seen([track(cell("a"), [0.01] * 3), track(cell("b"), FLAKY), track(cell("c"), [math.nan] * 9)]),
    "two_machines": lambda: seen([track(cell("a"), UP), track(cell("a"), UP, machine="other, 8 cores")]),
    # ±37 % from run to run hide 60 %
    "unclear": lambda: seen([track(cell("a"), np.exp(np.random.default_rng(3).normal(0, 0.37, 12)) * HIGHER)]),
    "since_a_date": lambda: seen(some(), since="2026-02-10T00:00:00+00:00"),
}


@pytest.mark.parametrize("name", SCENES)
def test_the_console_of_each_metric_and_sort_of_history_is_as_stored(name: str) -> None:
    text = console(SCENES[name]())
    assert as_stored(f"trend_{name}.txt", text + "\n")
    assert max(map(len, text.splitlines())) <= 80


def test_the_console_shows_changes_by_run_newest_first_and_in_ascii_where_it_must(trends: Trends) -> None:
    assert as_stored("trend.txt", console(trends) + "\n")
    text = console(trends, unicode=False)
    assert text.isascii()
    assert "torch 2.12.1 -> 2.13.0" in text


def test_where_noise_could_hide_a_change_it_is_said_on_the_page_and_in_json_too() -> None:
    found = SCENES["unclear"]()
    (trend,) = found.trends
    assert f"UNCLEAR: the smallest change that it could show is {could_show(trend)}" in page(found)
    (series,) = json.loads(trend_json(found))["series"]
    assert (series["state"], series["smallest_change_seen"]) == ("UNCLEAR", pytest.approx(trend.smallest, rel=1e-3))


def test_json_says_of_which_metric_it_is_and_what_changed_with_which_run(trends: Trends) -> None:
    assert json.loads(trend_json(of_another_size("memory", 1e10)))["metric"] == "memory"
    found = [change for series in json.loads(trend_json(trends))["series"] for change in series["changes"]]
    said = {(change["verdict"], change["last_run_before"][:8], change["first_run_after"][:8]) for change in found}
    assert said >= {("SLOWER", "20260129", "20260130"), ("FASTER", "20260129", "20260130"), ("LOST", "20260154", "20260155")}
    slower = next(change for change in found if change["verdict"] == "SLOWER")
    assert (slower["before"], slower["after"]) == pytest.approx((0.0123, 0.0141), rel=0.01)


def test_a_series_is_named_by_what_varies_within_its_suite() -> None:
    one, two = track(cell("a"), [1.0]), track(cell("a", workload=Workload.FORWARD_BACKWARD), [1.0])
    assert set(track_names([one]).values()) == {"a, N=4k"}
    assert set(track_names([one, two]).values()) == {"a, N=4k, forward", "a, N=4k, forward + backward"}
    batches = [track(Cell(method="a", problem=Problem(N=8, B=B)), [1.0]) for B in (1, 2)]
    assert set(track_names(batches).values()) == {"a, N=8, B=1", "a, N=8, B=2"}


def test_the_page_needs_neither_a_network_nor_a_script_and_is_the_same_every_time(trends: Trends) -> None:
    text = page(trends)
    assert text == page(trends)
    found = parsed(text)
    assert not {"script", "link", "iframe", "object", "base", "form"} & found.elements.keys()
    assert [words for words in ("http:", "https:", "url(", "@import") if words in text] == []
    assert all(target.startswith(("#s", "data:image/svg+xml;base64,")) for target in found.targets)
    assert found.policy == "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def test_the_page_has_a_chart_for_each_series_the_worst_first_and_says_what_changed_and_what_else_did(trends: Trends) -> None:
    # words of neighbouring elements stay apart
    found = parsed(page(trends).replace("<", " <"))
    assert found.elements["figure"] == found.elements["img"] == 6
    assert as_stored("trend_page.txt", "\n".join(textwrap.wrap(" ".join(found.text.split()), 100)) + "\n")


@pytest.mark.parametrize(
    ("metric", "levels", "ends"), [("memory", [3e3, 1e6], "≤ 1.00 MiB"), ("accuracy", [0, 0.9], "≤ 0.100% 100%")]
)
def test_a_chart_begins_at_the_floor_where_a_number_is_below_it_and_ends_at_the_most_that_can_be(
    metric: str, levels: list[float], ends: str
) -> None:
    (axes,) = figure(seen([track(cell("a"), np.repeat(levels, 30))], metric)).axes
    assert " ".join(label.get_text() for label in axes.get_yticklabels()).startswith(ends)


@pytest.mark.parametrize("form", FORMATS)
def test_names_that_are_markup_or_in_other_letters_are_drawn(form: str) -> None:
    names = ("<script>alert(1)</script>", "$x^2$ \\input{x}", "{{ 7 * 7 }}", "中文\n名\x1b[31m")
    tracks = [track(cell(name), noisy([0.01, 0.02], [30, 30]), suite=name) for name in names]
    assert len(image(seen(tracks), form)) > 1000


@pytest.mark.slow
def test_of_very_many_series_those_that_need_a_look_most_have_a_chart_and_the_others_a_row() -> None:
    rng, tracks = np.random.default_rng(1), []
    for i in range(130):
        levels = np.repeat([0.01, 0.012, 0.009] if i % 2 else [0.01] * 3, 134)
        tracks.append(track(cell(f"method.with_a_long_name_{i}", chunk=i), levels * rng.lognormal(0, 0.03, 402)))
    text = page(seen(tracks, runs=402))
    assert len(text.encode()) < 2e6
    found = parsed(text)
    assert found.elements["img"] == MOST_CHARTS
    assert all(f"method.with_a_long_name_{i}(chunk={i})" in found.text for i in range(130))
    charted, _, listed = " ".join(found.text.split()).partition("Series without a chart")
    assert "method.with_a_long_name_0(" not in charted
    assert "a point is 3 runs: median, shaded from least to greatest" in charted
    assert "402 runs with a number" in listed
    assert [target for target in found.targets if target[0] == "#" and f'id="{target[1:]}"' not in text] == []


def drawn(trends: Trends, number: int = 0) -> Axes:
    axes = Figure().add_subplot()
    draw(axes, trends, trends.trends[number])
    return axes


@pytest.mark.usefixtures("settings")
def test_a_short_series_is_drawn_run_by_run_and_a_long_one_hides_no_extreme() -> None:
    values = noisy([0.01], [1000])
    values[777] = 0.05
    dots = drawn(seen([track(cell("a"), values[:POINTS])], runs=POINTS)).lines[0]
    assert np.asarray(dots.get_xydata()) == pytest.approx(np.column_stack([np.arange(POINTS), np.log(values[:POINTS])]))
    long = drawn(seen([track(cell("a"), values)], runs=1000))
    assert len(np.asarray(long.lines[0].get_xydata())) == 143
    (band,) = long.collections
    heights = np.asarray(band.get_paths()[0].vertices)[:, 1]
    assert (heights.min(), heights.max()) == pytest.approx((np.log(values).min(), math.log(0.05)))


@pytest.mark.usefixtures("settings")
def test_everything_that_is_drawn_lies_within_the_chart_and_changes_stand_where_they_came(trends: Trends) -> None:
    for number, trend in enumerate(trends.trends):
        axes = drawn(trends, number)
        (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
        assert all(left <= x <= right and low <= y <= high for line in axes.lines for x, y in np.asarray(line.get_xydata()))
        marks = {"SLOWER": "^", "FASTER": "v", "LOST": "x", "GAINED": "o"}
        large = [line for line in axes.lines if line.get_markersize() == 4.5]
        shown = [(float(np.asarray(line.get_xdata())[0]), line.get_marker()) for line in large]
        assert shown == [(turn.at, marks[turn.verdict]) for turn in trend.turns]


@pytest.mark.usefixtures("settings")
def test_the_figure_shows_the_series_that_need_a_look_most_and_says_how_many_there_are(trends: Trends) -> None:
    assert [trend.state.value for trend in worst_first(trends)] == ["LOST", "SLOWER", "FASTER", "GAINED", "ABSENT", "SAME"]
    assert len(figure(trends).axes) == 6
    # a regression that came back as slow stands before what became faster
    back, faster = noisy([0.01, 0.015], [20, 40], 8), noisy([0.015, 0.01], [20, 40], 8)
    back[50:54] = math.nan
    both = seen([track(cell("b"), faster), track(cell("a"), back)])
    assert [trend.state.value for trend in worst_first(both)] == ["GAINED", "FASTER"]
    many = figure(seen([track(cell("a", N), noisy([0.01], [60], N)) for N in range(1, 30)]))
    assert len(many.axes) == MOST
    assert "the 12 that need a look most" in " ".join(text.get_text() for text in many.texts)
    assert figure(seen([])).axes == []


def test_beside_a_failure_a_figure_that_was_not_recorded_is_no_failure_too() -> None:
    ends = {r"LOST .* n/a +OOM\n": [math.inf, math.nan], r"GAINED .* OOM +n/a\n": [math.nan] * 2 + [math.inf] * 2}
    for words, numbers in ends.items():
        assert re.search(words, console(seen([track(cell("a"), [0.01, 0.01, *numbers])])))


TORCH = "torch 2.12.1 → 2.13.0"


@pytest.mark.parametrize(
    ("at", "told"), [(29, [f"{TORCH} (one run off)"]), (30, [TORCH]), (31, [f"{TORCH} (one run off)"]), (33, [])]
)
def test_what_else_changed_is_told_with_a_step_also_one_run_off(at: int, told: list[str]) -> None:
    found = seen([track(cell("a"), np.repeat([0.01, 0.02], [at, 60 - at]))])
    (trend,) = found.trends
    (turn,) = trend.turns
    assert about(found, trend, turn) == told
