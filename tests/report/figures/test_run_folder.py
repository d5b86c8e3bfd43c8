import io
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import matplotlib as mpl
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text
from matplotlib.transforms import Bbox
from PIL import Image

from attnbench.analyze.statistics import Estimate
from attnbench.report.drawing import style
from attnbench.report.drawing.legend import GID
from attnbench.report.drawing.lines import quantity
from attnbench.report.drawing.lines.curve import curves
from attnbench.report.drawing.lines.quantity import Point, beyond
from attnbench.report.figures import run_folder as plots
from attnbench.report.findings import Findings
from attnbench.schema.cell import Workload
from attnbench.schema.outcome import Status
from attnbench.schema.suite import ReportSpec

if TYPE_CHECKING:
    from tests.report.conftest import Law, Synthetic

FORWARD = (Workload.FORWARD,)


@pytest.fixture
def settings() -> Iterator[None]:
    with style.applied():
        yield


def time_figure(run: "Synthetic") -> Figure:
    return plots.figure(Findings.of(run.run(), run.records()), Workload.FORWARD, quantity.time(Workload.FORWARD))


def beside(axes: Axes) -> dict[str, Bbox]:
    """Labels beside a panel and the boxes of their letters, without the leaders."""
    renderer = FigureCanvasAgg(axes.get_figure(root=True)).get_renderer()  # type: ignore[no-untyped-call]
    labels = [child for child in axes.texts if isinstance(child, Annotation)]
    for label in labels:
        label.update_positions(renderer)
    return {label.get_text(): Text.get_window_extent(label, renderer) for label in labels}


def legend(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts if text.get_gid() == GID]


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize("lengths", [(512, 1024, 2048), (512,), tuple(2**i for i in range(9, 17))])
def test_labels_beside_a_panel_touch_neither_each_other_nor_the_next_panel(
    synthetic: "type[Synthetic]", lengths: tuple[int, ...]
) -> None:
    picture = time_figure(synthetic(workloads=FORWARD, lengths=lengths))
    walls = [axes.get_window_extent().x0 for axes in picture.axes[1:]] + [picture.bbox.width]
    for axes, wall in zip(picture.axes, walls, strict=True):
        boxes = sorted(beside(axes).values(), key=lambda box: float(box.y0))
        assert len(boxes) == 7
        assert all(low.y1 <= high.y0 + 1 for low, high in pairwise(boxes))
        assert all(axes.get_window_extent().x1 < box.x0 and box.x1 < wall for box in boxes)


@pytest.mark.usefixtures("settings")
def test_a_figure_has_a_column_per_mask_and_a_row_per_dtype(synthetic: "type[Synthetic]") -> None:
    picture = time_figure(synthetic(workloads=FORWARD, dtypes=("float32", "bfloat16"), lengths=(512, 1024)))
    titles = {axes.get_title(loc="left") for axes in picture.axes}
    assert titles == {"causal, float32", "causal, bfloat16", "non-causal, float32", "non-causal, bfloat16"}
    assert picture.get_size_inches()[0] <= 7


@pytest.mark.usefixtures("settings")
def test_the_title_names_workload_quantity_dtype_and_device(small: "Synthetic") -> None:
    words = [text.get_text() for text in time_figure(small).texts]
    assert words == ["forward: time per sample", "float32, AMD EPYC 9B14 (cpu)"]


@pytest.mark.usefixtures("settings")
def test_axes_say_lengths_and_units(synthetic: "type[Synthetic]") -> None:
    run = synthetic(workloads=FORWARD)
    findings = Findings.of(run.run(), run.records())
    time = plots.figure(findings, Workload.FORWARD, quantity.time(Workload.FORWARD)).axes[0]
    memory = plots.figure(findings, Workload.FORWARD, quantity.memory(findings.counter, Workload.FORWARD)).axes[0]
    assert [t.get_text() for t in time.get_xticklabels()] == ["512", "1k", "2k", "4k", "8k", "16k", "32k", "64k"]
    assert "1 ms" in [t.get_text() for t in time.get_yticklabels()]
    assert "64 MiB" in [t.get_text() for t in memory.get_yticklabels()]


@pytest.mark.usefixtures("settings")
def test_no_letter_is_smaller_than_seven_points(synthetic: "type[Synthetic]") -> None:
    picture = time_figure(synthetic(workloads=FORWARD, lengths=(512, 1024)))
    assert min(float(text.get_fontsize()) for text in picture.findobj(Text) if isinstance(text, Text)) >= 7


@pytest.mark.usefixtures("settings")
def test_failures_are_said_once_and_the_legend_has_the_exponent(synthetic: "type[Synthetic]") -> None:
    causal, other = time_figure(synthetic(workloads=FORWARD)).axes
    assert {"softmax.naive\nOOM at 16k", "softmax.sdpa\nbudget at 64k", "linear.full\nunsupported"} <= set(beside(causal))
    assert "lsh.reformer_pytorch\n(rounds=4)\ncrashed at 32k" in beside(causal)
    assert "linear.full" in beside(other)
    assert "linear.full  unsupported" in legend(causal)
    assert any(text.startswith("softmax.naive  N^") for text in legend(causal))


def test_a_failure_stands_on_the_line_drawn_further(synthetic: "type[Synthetic]") -> None:
    run = synthetic(workloads=FORWARD)
    findings = Findings.of(run.run(), run.records())
    naive, *_, never = curves(findings, findings.sections[0], quantity.time(Workload.FORWARD), style.looks(findings.labels))
    assert [(N, first) for N, _, first in naive.failures] == [(16384, True), (32768, False), (65536, False)]
    assert naive.failures[0][1] == pytest.approx(4 * naive.points[-1].value, rel=0.2)
    assert never.points == ()
    assert {value for _, value, _ in never.failures} == {None}


def test_a_line_is_drawn_further_by_its_two_nearest_points() -> None:
    points = [Point(N, Estimate.exact(value)) for N, value in ((1, 50.0), (2, 4.0), (4, 16.0))]
    assert beyond(points, 8) == pytest.approx(64.0)
    assert beyond(points[:1], 8) == 50.0
    assert beyond([], 8) is None


def test_a_method_looks_the_same_in_every_figure_and_unlike_the_others(synthetic: "type[Synthetic]") -> None:
    labels = [f"m.{i}" for i in range(300)]
    assert len(set(style.looks(labels).values())) == 300
    run = synthetic(lengths=(512, 1024, 2048))
    findings = Findings.of(run.run(), run.records())
    looks = style.looks(findings.labels)
    for section in findings.sections:
        drawn = curves(findings, section, quantity.time(section.workload), looks)
        assert [curve.look for curve in drawn] == [looks[label] for label in section.series]


def test_methods_can_be_told_apart_in_grey() -> None:
    looks = list(style.looks(f"m.{i}" for i in range(8)).values())
    assert len({(look.marker, look.filled) for look in looks}) == 8


def test_the_same_records_give_the_same_bytes(small: "Synthetic") -> None:
    small.report = ReportSpec(plots=("time",))
    findings = Findings.of(small.run(), small.records())
    (first,), (second,) = plots.plots(findings), plots.plots(findings)
    assert first == second
    assert first.images["svg"].startswith(b"<?xml")
    assert first.images["pdf"].startswith(b"%PDF")
    assert b"/Type3" not in first.images["pdf"]
    assert b"Date" not in first.images["svg"].split(b"<defs>")[0]
    assert Image.open(io.BytesIO(first.images["png"])).size[0] > 600


def test_drawing_leaves_no_setting_changed(small: "Synthetic") -> None:
    small.report = ReportSpec(plots=("time",))
    with mpl.rc_context({"font.size": 31.0, "axes.facecolor": "red"}):
        before = dict(mpl.rcParams)
        changed = plots.plots(Findings.of(small.run(), small.records()))
        assert dict(mpl.rcParams) == before
    assert changed == plots.plots(Findings.of(small.run(), small.records()))


def test_only_the_plots_that_the_suite_asks_for_are_drawn(small: "Synthetic") -> None:
    small.report = ReportSpec(plots=("memory",))
    assert [(p.workload, p.kind) for p in plots.plots(Findings.of(small.run(), small.records()))] == [
        (Workload.FORWARD, "memory")
    ]


def test_the_caption_says_what_where_and_how(synthetic: "type[Synthetic]") -> None:
    run = synthetic(workloads=FORWARD, lengths=(512, 1024, 2048), report=ReportSpec(plots=("time",)))
    (plot,) = plots.plots(Findings.of(run.run(), run.records()))
    for words in ("forward: time per sample", "n = 3 replicates", "a band", "clock wall", "allocator retain", "AMD EPYC 9B14"):
        assert words in plot.caption
    assert "\ncausal, float32: unsupported: linear.full at 512 to 2k" in plot.caption
    assert "\nwrong: sparse.strided at 512 to 2k" in plot.caption


@pytest.mark.usefixtures("settings")
def test_a_run_in_which_everything_failed_still_has_its_panels(law: "type[Law]", synthetic: "type[Synthetic]") -> None:
    laws = [law(f"m.{i}", 1.0, 1.0, stop_at=1, status=status, reason="because") for i, status in enumerate(Status)]
    for axes in time_figure(synthetic(laws, workloads=FORWARD)).axes:
        assert "nothing was measured" in [text.get_text() for text in axes.texts]
        assert len(beside(axes)) == len(Status)


@pytest.mark.usefixtures("settings")
def test_hostile_names_are_drawn_as_they_are(hostile: "Synthetic") -> None:
    (axes,) = time_figure(hostile).axes
    entries = [text.strip("\u200b") for text in legend(axes)]
    assert entries[0].startswith("../../x  N^")
    assert entries[2].startswith("\\input{x}  N^")
    assert entries[4].startswith("_$x^2$_")
    assert "□□ 名".replace("名", "□") in beside(axes)


def test_a_state_is_drawn_of_what_decodes_only(decoding: "Synthetic") -> None:
    decoding.workloads = (Workload.FORWARD, Workload.DECODE)
    decoding.lengths, decoding.report = (512, 1024), ReportSpec(plots=("state",))
    (plot,) = plots.plots(Findings.of(decoding.run(), decoding.records()))
    assert (plot.workload, plot.kind) == (Workload.DECODE, "state")
    assert plot.caption.startswith("decode: state of one sequence against length N")
    assert "\nState: what a method keeps between tokens" in plot.caption
    assert "Memory:" not in plot.caption
    assert "replicates a cell" not in plot.caption


@pytest.mark.usefixtures("settings")
def test_decoding_is_drawn_per_token_and_the_rules_of_the_batch_side_by_side(decoding: "Synthetic") -> None:
    picture = plots.figure(Findings.of(decoding.run(), decoding.records()), Workload.DECODE, quantity.time(Workload.DECODE))
    assert [text.get_text() for text in picture.texts] == ["decode: time per token", "AMD EPYC 9B14 (cpu)"]
    titles = [axes.get_title(loc="left") for axes in picture.axes]
    assert titles == ["causal, float32, B=1", "causal, float32, largest B that fits"]
    assert picture.get_size_inches()[0] <= 7
    left, right = picture.axes
    assert left.get_ylim() == right.get_ylim()
    assert left.get_window_extent().y0 == right.get_window_extent().y0


@pytest.mark.usefixtures("settings")
def test_a_third_set_of_conditions_under_one_mask_starts_a_new_row(synthetic: "type[Synthetic]") -> None:
    run = synthetic(workloads=FORWARD, causal=(True,), dtypes=("float32", "bfloat16", "float16"), lengths=(512, 1024))
    first, second, third = (axes.get_window_extent() for axes in time_figure(run).axes)
    assert first.y0 == second.y0 > third.y1
    assert first.x0 == third.x0 < second.x0


@pytest.mark.usefixtures("settings")
def test_a_state_of_one_size_is_a_level_line(decoding: "Synthetic") -> None:
    findings = Findings.of(decoding.run(), decoding.records())
    (axes, _) = plots.figure(findings, Workload.DECODE, quantity.state()).axes
    assert {"softmax.sdpa  N^1.00", "linear.chunked(chunk=64)  N^0.00"} <= set(legend(axes))
