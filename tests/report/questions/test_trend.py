"""Trends as people see them: on a terminal, as a page, as a picture; whatever is in a name is inert."""

import io
import math
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from attnbench.analyze.trend import Metric, Trends, look
from attnbench.report.drawing import style
from attnbench.report.questions.trend.chart import chart
from attnbench.report.questions.trend.console import console
from attnbench.report.questions.trend.figure import FORMATS, MOST, figure, image, worst
from attnbench.report.questions.trend.names import track_names
from attnbench.report.questions.trend.page import page
from attnbench.report.questions.trend.words import about
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.history import Entry, Floats, Track
from attnbench.schema.problem import Problem

GOLDEN = Path(__file__).parents[1] / "golden"
MACHINE = "AMD EPYC 9B14, 2 cores, 2 threads"


def entries(count: int, suite: str = "nightly", machine: str = MACHINE) -> list[Entry]:
    """A run a day; on the thirtieth day torch and the source of one method are others."""
    day, found = np.datetime64("2026-01-01"), []
    for i in range(count):
        late = i >= 30
        found.append(
            Entry(
                place=f"{suite}/run{i}",
                suite=suite,
                run=f"202601{i:02}-030405-abcdef",
                started=f"{day + i}T03:04:05+00:00",
                machine=machine,
                commit=f"{i:02}" * 20,
                dirty=i == 30,
                facts={"processor": "AMD EPYC 9B14", "torch": "2.13.0" if late else "2.12.1"},
                methods={"linear.chunked": f"attnbench 0.1.0, source {'b' if late else 'a'}"},
                ok=4,
            )
        )
    return found


def cell(method: str, N: int = 4096, workload: Workload = Workload.FORWARD, **params: int) -> Cell:
    return Cell(method=method, problem=Problem(N=N, causal=True), workload=workload, params=dict(params))


def track(
    cell: Cell, seconds: Floats | Sequence[float], suite: str = "nightly", machine: str = MACHINE, reason: str = "out of memory"
) -> Track:
    """NaN is a failure."""
    values = np.array(seconds, dtype=float)
    return Track(
        suite=suite,
        machine=machine,
        cell=cell,
        runs=np.arange(len(values)),
        seconds=values,
        spread=np.full(len(values), 0.012),
        bytes=values * 1e10,
        counters=np.where(np.isnan(values), -1, 0),
        failures=np.where(np.isnan(values), 0, -1),
        names=("host_rss_peak (VmHWM)",),
        reasons=(("oom_host", reason),),
    )


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
        track(cell("softmax.naive", 16384), lost, reason="memory limit of 17.2 GB reached"),
        track(cell("softmax.sdpa"), back),
        track(cell("softmax.sdpa", workload=Workload.FORWARD_BACKWARD), noisy([0.5], [60], 5)),
        track(cell("lsh.reformer"), [math.nan] * 60),
    ]


def seen(tracks: Sequence[Track], metric: Metric = Metric.TIME, runs: int = 60, **more: str) -> Trends:
    return look(entries(runs), tracks, metric, 0.05, **more)


@pytest.fixture
def trends() -> Trends:
    """Of every kind one."""
    broken = Entry("nightly/20260301-000000-ffffff", problem="run.json: Invalid JSON: EOF while parsing")
    return look([*entries(60), broken], some(), Metric.TIME, 0.05)


class Reader(HTMLParser):
    """Tags, attributes and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture
def reader(trends: Trends) -> Reader:
    """The page, parsed."""
    return Reader(page(trends))


def test_the_console_shows_changes_by_run_newest_first(trends: Trends) -> None:
    assert console(trends) + "\n" == (GOLDEN / "trend.txt").read_text(encoding="utf-8")


def test_the_console_keeps_to_eighty_columns_and_to_ascii_where_it_must(trends: Trends) -> None:
    text = console(trends, unicode=False)
    assert text.isascii()
    assert "torch 2.12.1 -> 2.13.0" in text
    assert max(map(len, console(trends).splitlines())) <= 80


def test_a_history_without_changes_says_so() -> None:
    text = console(seen([track(cell("a"), noisy([0.01], [60]))]))
    assert "No change was found; 1 of 1 series without a change: 1 " in text


def test_memory_is_told_in_its_own_words() -> None:
    text = console(seen(some(), Metric.MEMORY))
    assert "MORE" in text
    assert "LESS" in text
    assert "MiB" in text
    assert "SLOWER" not in text


def test_what_nothing_is_said_of_is_counted() -> None:
    short = track(cell("a"), [0.01, 0.01, 0.01])
    flaky = track(cell("b"), [0.01] * 5 + [math.nan] + [0.01] * 5)
    text = " ".join(console(seen([short, flaky, track(cell("c"), [math.nan] * 9)])).split())
    assert "1 series have fewer than 4 runs with a number" in text
    assert "1 series have no time at all" in text
    assert "1 failures passed by the next run" in text


def test_changes_on_several_machines_are_told_apart() -> None:
    up = noisy([0.01, 0.02], [30, 30])
    text = console(seen([track(cell("a"), up), track(cell("a"), up, machine="other, 8 cores")]))
    assert f"on {MACHINE}" in text
    assert "on other, 8 cores" in text


def test_only_changes_since_a_date_are_told() -> None:
    text = console(seen(some(), since="2026-02-10T00:00:00+00:00"))
    assert "Only changes from 2026-02-10 on are told." in text
    assert "SLOWER" not in text
    assert "LOST" in text


def test_a_series_is_named_by_what_varies_within_its_suite() -> None:
    one, two = track(cell("a"), [1.0]), track(cell("a", workload=Workload.FORWARD_BACKWARD), [1.0])
    assert set(track_names([one]).values()) == {"a, N=4k"}
    assert set(track_names([one, two]).values()) == {"a, N=4k, forward", "a, N=4k, forward_backward"}
    batches = [track(Cell(method="a", problem=Problem(N=8, B=B)), [1.0]) for B in (1, 2)]
    assert set(track_names(batches).values()) == {"a, N=8, B=1", "a, N=8, B=2"}


def test_the_page_needs_neither_a_network_nor_a_script(trends: Trends, reader: Reader) -> None:
    assert not {"script", "link", "img", "iframe", "object", "base", "form"} & set(reader.tags)
    assert "http:" not in page(trends)
    assert "https:" not in page(trends)
    assert "url(" not in page(trends)
    assert "@import" not in page(trends)
    assert {value for name, value in reader.attributes if name == "href"} <= {f"#s{i}" for i in range(6)}
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in reader.attributes


def test_the_page_has_a_chart_for_each_series_the_worst_first(reader: Reader) -> None:
    assert reader.tags.count("figure") == reader.tags.count("svg") == 6
    names = ["softmax.naive, N=16k", "linear.chunked(chunk=64), N=4k", "linear.chunked(chunk=64), N=1k", "softmax.sdpa, N=4k"]
    places = [reader.text.index(name) for name in names]
    assert places == sorted(places)


def test_the_page_says_what_changed_and_what_else_did(reader: Reader) -> None:
    assert "SLOWER 1.15×" in reader.text
    assert "torch 2.12.1 → 2.13.0" in reader.text
    assert "linear.chunked attnbench 0.1.0, source a → attnbench 0.1.0, source b" in reader.text
    assert "commit 29292929..30303030+" in reader.text
    assert "LOST: 89.6 ms → OOM; memory limit of 17.2 GB reached" in reader.text
    assert "Cannot be read: nightly/20260301-000000-ffffff: run.json: Invalid JSON" in reader.text


def test_the_page_is_the_same_every_time(trends: Trends) -> None:
    assert page(trends) == page(trends)


HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</title></style><svg onload=alert(1)>",
    "{{ 7 * 7 }}{% raw %}",
    "$x^2$ \\input{x}",
    "中文\n名\x1b[31m",
    "&lt;b&gt;",
)


@pytest.fixture
def hostile() -> Trends:
    """Methods, machines, reasons, runs and versions that are markup."""
    tracks = []
    for i, name in enumerate(HOSTILE):
        values = noisy([0.01, 0.02], [30, 30], i)
        values[-2:] = math.nan
        tracks.append(track(cell(name), values, suite="nightly", machine=name, reason=name))
    runs = entries(60)
    late = {"run": HOSTILE[1], "facts": {HOSTILE[0]: HOSTILE[2]}, "commit": HOSTILE[1], "machine": HOSTILE[0]}
    runs[30] = Entry(**{**runs[30].__dict__, **late})
    runs[58] = Entry(**{**runs[58].__dict__, **late})
    return look([*runs, Entry(HOSTILE[1], problem=HOSTILE[0])], tracks, Metric.TIME, 0.05)


def test_hostile_names_are_inert_on_the_page(hostile: Trends) -> None:
    found = Reader(page(hostile))
    assert not {"script", "img"} & set(found.tags)
    assert found.tags.count("svg") == len(HOSTILE)
    assert not [name for name, _ in found.attributes if name.startswith("on")]
    assert "49" not in found.text.replace("2026", "").split()
    assert "{{ 7 * 7 }}{% raw %}" in found.text
    assert "\x1b" not in page(hostile)


def test_hostile_names_are_inert_on_a_terminal(hostile: Trends) -> None:
    text = console(hostile)
    assert "\x1b" not in text
    assert console(hostile, unicode=False).isascii()


@pytest.mark.parametrize("form", FORMATS)
def test_hostile_names_are_drawn(hostile: Trends, form: str) -> None:
    assert len(image(hostile, form)) > 1000


def test_a_page_of_two_hundred_long_series_has_less_than_two_megabytes() -> None:
    rng = np.random.default_rng(1)
    tracks = [
        track(
            cell(f"method.with_a_long_name_{i}", chunk=i), np.repeat([0.01, 0.012, 0.009], 334) * rng.lognormal(0, 0.03, 1002)
        )
        for i in range(200)
    ]
    text = page(look(entries(1002), tracks, Metric.TIME, 0.05))
    assert len(text.encode()) < 2e6
    assert text.count("<svg") == 200
    assert "a point is 7 runs: median, shaded from least to greatest" in Reader(text).text


def test_a_short_series_is_drawn_run_by_run_and_a_long_one_hides_no_extreme() -> None:
    values = noisy([0.01], [1000])
    values[777] = 0.05
    (trend,) = seen([track(cell("a"), values)], runs=1000).trends
    assert chart(trend, 2000).bucket == 1
    assert len(chart(trend, 2000).points) == 1000
    drawn = chart(trend, 100)
    assert (drawn.bucket, len(drawn.points), len(drawn.band)) == (10, 100, 200)
    assert drawn.high > 0.05
    assert max(y for _, y in drawn.band) == pytest.approx(max(y for _, y in chart(trend, 2000).points))


def test_everything_that_is_drawn_lies_within_the_chart(trends: Trends) -> None:
    for trend in trends.trends:
        drawn = chart(trend, 160)
        spots = [*drawn.points, *drawn.band, *((x, y) for x, y, _ in drawn.marks), *((x, 0) for x in drawn.failures)]
        assert all(0 <= x <= 1 and 0 <= y <= 1 for x, y in spots)


@pytest.fixture
def settings() -> Iterator[None]:
    """As figures are made."""
    with style.applied():
        yield


def test_the_picture_shows_the_worst_series_and_says_how_many_there_are(trends: Trends, settings: None) -> None:
    drawn = figure(trends)
    assert [trend.state.value for trend in worst(trends)] == ["LOST", "SLOWER", "FASTER", "GAINED", "ABSENT", "SAME"]
    assert len(drawn.axes) == 6
    many = seen([track(cell("a", N), noisy([0.01], [60], N)) for N in range(1, 30)])
    assert len(figure(many).axes) == MOST
    assert "the 12 that need a look most" in " ".join(text.get_text() for text in figure(many).texts)


def test_the_picture_of_nothing_is_a_title(settings: None) -> None:
    assert figure(seen([])).axes == []


def test_the_picture_has_a_size_and_is_the_same_every_time(trends: Trends) -> None:
    assert image(trends, "svg") == image(trends, "svg")
    with Image.open(io.BytesIO(image(trends, "png"))) as drawn:
        assert drawn.width > 1000


@pytest.mark.parametrize(("at", "words"), [(29, "(one run off)"), (30, ""), (31, "(one run off)"), (33, None)])
def test_what_else_changed_is_told_with_a_step_also_one_run_off(at: int, words: str | None) -> None:
    (trend,) = seen([track(cell("a"), np.repeat([0.01, 0.02], [at, 60 - at]))]).trends
    (turn,) = trend.turns
    expected = [] if words is None else [f"torch 2.12.1 → 2.13.0 {words}".strip()]
    assert about(entries(60), trend, turn) == expected
