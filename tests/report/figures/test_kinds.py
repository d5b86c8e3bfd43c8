"""Where things stand in each kind of figure, lines over length first, and what is said where the run cannot give it."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnbench.analyze.quantities import Unit
from attnbench.analyze.statistics import Estimate, Interval, Spread
from attnbench.report.drawing import style
from attnbench.report.drawing.kinds import CannotDrawError
from attnbench.report.drawing.lines import Plotted, beyond, failures, parts
from attnbench.report.drawing.sheet import FOLDER, SLIDE, Sheet, Style, sheet
from attnbench.report.figures.make import files, folder_files
from attnbench.report.findings import Findings
from attnbench.schema.cell import Workload
from attnbench.schema.outcome import Status
from attnbench.schema.suite import ReportSpec
from tests.report.conftest import Law, Synthetic
from tests.report.drawn import drawings, found, legend, pictures, refused, words
from tests.report.figures.conftest import Everything

PAPER = sheet(Style.PAPER)
FORWARD, SHORT = (Workload.FORWARD,), (512, 1024)


# lines over length


def time_figure(run: Synthetic) -> Figure:
    return pictures(found(run), "time")[0]


def above(axes: Axes) -> list[str]:
    """Words above a panel."""
    return [text.get_text() for text in axes.texts]


def test_a_third_set_of_conditions_under_one_mask_starts_a_new_row() -> None:
    run = Synthetic(workloads=FORWARD, causal=(True,), dtypes=("float32", "bfloat16", "float16"), lengths=SHORT)
    first, second, third = (axes.get_position() for axes in time_figure(run).axes)
    assert first.y0 == second.y0 > third.y1
    assert first.x0 == pytest.approx(third.x0)
    assert third.x0 < second.x0


def test_what_was_not_measured_is_noted_above_the_panel_at_the_first_length_without_a_number() -> None:
    findings = found(Synthetic(workloads=FORWARD))
    causal, other = pictures(findings, "time")[0].axes
    assert causal.get_ylim() == other.get_ylim()
    floor = causal.get_window_extent().y1
    assert all(text.get_window_extent().y0 >= floor for text in causal.texts)
    naive = next(line for line in causal.lines if line.get_label() == "\u200bsoftmax.naive")
    assert np.max(naive.get_xdata()) == 8192
    notes = [(note.N, note.words) for note in failures(findings.sections[0], style.looks(findings.labels))]
    assert notes == [(2**14, "OOM"), (2**16, "budget"), (0, "unsupported"), (2**15, "crashed"), (0, "wrong")]


def test_notes_of_one_panel_do_not_meet() -> None:
    laws = [Law(f"m.{i}", 1.0, 1.0, stop_at=2 ** (9 + i % 4), status=status) for i, status in enumerate(Status)]
    run = Synthetic(laws, workloads=FORWARD, causal=(True,), lengths=(512, 1024, 2048, 4096, 8192))
    (axes,) = time_figure(run).axes
    boxes = sorted((text.get_window_extent() for text in axes.texts), key=lambda box: (round(box.y0), box.x0))
    for left, right in pairwise(boxes):
        assert left.x1 <= right.x0 or left.y1 <= right.y0 + 2


def test_without_failures_only_what_has_numbers_is_drawn() -> None:
    (drawing,) = drawings(found(Synthetic(workloads=FORWARD, causal=(True,))), "time", Sheet(failures=False))
    (picture,) = drawing.sheets
    assert above(picture.axes[0]) == []
    assert not any(name.startswith(("sparse.strided", "linear.full")) for name in legend(picture))
    assert "Above the panel" not in drawing.caption


def test_a_line_is_drawn_further_by_its_two_nearest_points() -> None:
    points = {N: Estimate.exact(value) for N, value in ((1, 50.0), (2, 4.0), (4, 16.0))}
    assert beyond(points, 8) == pytest.approx(64.0)
    assert (beyond({1: points[1]}, 8), beyond({}, 8)) == (50.0, None)


def test_a_range_as_narrow_as_rounding_is_drawn_as_a_point(small: Synthetic) -> None:
    narrow = Estimate(1e-7, Interval(1e-7 * (1 - 2e-16), 1e-7 * (1 + 2e-16), Spread.BAND))
    points = Plotted("rounding", lambda _: narrow, Unit.SHARE).points(found(small).summaries)
    assert {point.is_exact for point in points.values()} == {True}


def test_a_line_breaks_at_zero_bytes_and_the_caption_says_so() -> None:
    run = found(Synthetic([Law("linear.a", 1e-3, 1.0)], (512, 1024, 2048, 4096), (True,), FORWARD))
    cells = []
    for each in run.summaries:
        counters = each.memory.counters.items() if each.cell.problem.N == 1024 else ()
        none = {name: counter.model_copy(update={"bytes": 0}) for name, counter in counters}
        cells.append(replace(each, memory=replace(each.memory, counters={**each.memory.counters, **none})))
    findings = Findings.over(run.run, cells)
    (line, *_) = pictures(findings, "memory")[0].axes[0].lines
    assert np.isnan(np.asarray(line.get_ydata())).tolist() == [False, True, False, False]
    assert "lines break there, and no N^x spans one (linear.a)." in caption(findings, "memory")


def test_a_run_in_which_everything_failed_or_nothing_was_begun_still_has_its_panels(small: Synthetic) -> None:
    laws = [Law(f"m.{i}", 1.0, 1.0, stop_at=1, status=status, reason="because") for i, status in enumerate(Status)]
    picture = time_figure(Synthetic(laws, workloads=FORWARD))
    for axes in picture.axes:
        assert "nothing was measured" in above(axes)
    assert len(legend(picture)) == len(Status)
    (planned,) = pictures(Findings.of(small.run(), []), "scaling", PAPER)
    assert "nothing was measured" in words(planned)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("kind", "methods"), [("time", ["linear.a"]), ("ratio", ["linear.a", "softmax.sdpa"])])
def test_a_panel_without_a_number_takes_the_axis_of_the_one_beside_it(kind: str, methods: list[str], causal: bool) -> None:
    laws = [Law(name, 1e-3, 1.0, only_causal=causal if name == "linear.a" else None) for name in methods]
    runs = [Synthetic(laws, SHORT, masks, FORWARD) for masks in ((causal,), (True, False))]
    (alone,), (left, right) = (pictures(found(run), kind)[0].axes for run in runs)
    assert left.get_ylim() == right.get_ylim() == alone.get_ylim()
    # the numbers of both stand on the left
    numbers, wanted = ([label.get_text() for label in axes.get_yticklabels()] for axes in (left, alone))
    assert numbers == wanted != []


def test_names_are_drawn_as_they_are_or_as_the_suite_calls_them(small: Synthetic, hostile: Synthetic) -> None:
    def shown(run: Synthetic, **labels: str) -> list[str]:
        run.report = ReportSpec(labels=labels)
        return [name.partition(" ")[0] for name in legend(time_figure(run))]

    assert {"../../x", "\\input{x}"} <= set(shown(hostile))
    assert shown(small, **{"linear.chunked": "Linear", "softmax.sdpa": "Flash"})[1:3] == ["Flash", "Linear(chunk=64)"]
    # two methods that are called the same keep their own names
    assert "Flash" not in shown(small, **{"linear.chunked(chunk=64)": "Flash", "softmax.sdpa": "Flash"})


def test_only_the_plots_that_the_suite_asks_for_are_drawn_and_no_setting_is_changed(small: Synthetic) -> None:
    small.report = ReportSpec(plots=("memory",))
    with mpl.rc_context({"font.size": 31.0, "axes.facecolor": "red"}):
        before = dict(mpl.rcParams)
        changed = folder_files(found(small))
        assert dict(mpl.rcParams) == before
    assert changed == folder_files(found(small))
    assert {name.partition(".")[0] for name in changed} == {"forward/memory"}


def test_what_fits_stays_one_panel_and_of_more_methods_families_stay_together_and_a_large_one_is_cut() -> None:
    def of(*names: str) -> Synthetic:
        return Synthetic([Law(name, 1e-3, 1.0) for name in names], SHORT, (True,), FORWARD)

    (few,) = found(of(*(f"a.{i}" for i in range(FOLDER.methods)))).sections
    assert parts(few, FOLDER.methods) == [few]
    (whole,) = found(of(*(f"a.{i}" for i in range(17)), "b.x", "c.y", "b.z")).sections
    made = parts(whole, 16)
    assert [part.conditions for part in made] == ["float32, a (1 of 2)", "float32, a, b, c (2 of 2)"]
    assert [len(part.series) for part in made] == [9, 11]
    assert sorted(s.cell.key for part in made for s in part.summaries) == sorted(s.cell.key for s in whole.summaries)
    picture = time_figure(of(*(f"m.{i}" for i in range(40))))
    assert (len(picture.axes), len(legend(picture))) == (3, 40)
    assert "nothing was measured" not in words(picture)


# other kinds


def caption(findings: Findings, kind: str) -> str:
    return "".join(drawing.caption for drawing in drawings(findings, kind))


def test_a_ratio_is_over_the_strongest_exact_one_which_is_the_line_at_1(everything: Everything) -> None:
    (forward, _) = pictures(everything(), "ratio")
    (axes,) = forward.axes
    assert not any(text.startswith("softmax.sdpa") for text in legend(forward))
    assert sum(list(line.get_ydata()) == [1.0, 1.0] for line in axes.lines) == 1  # type: ignore[arg-type]
    low, high = axes.get_ylim()
    assert low < 1 < high


def test_of_more_methods_than_fit_those_that_cross_are_shown_and_the_others_counted() -> None:
    laws = [Law("softmax.sdpa", 3e-3, 2.0), *(Law(f"slow.{i}", 1.0, 2.0) for i in range(20)), Law("linear.x", 6e-3, 1.0)]
    run = Synthetic(laws, lengths=(512, 1024, 2048, 4096), causal=(True,), workloads=(Workload.FORWARD,), replicates=5)
    findings = Findings.of(run.run(), run.records())
    (picture,) = pictures(findings, "crossover", PAPER)
    shown = legend(picture)
    assert len(shown) == PAPER.methods
    assert "linear.x" in shown
    assert "Not drawn: 5 more pairs; " in caption(findings, "crossover")


def test_a_roofline_has_a_point_a_cell_and_what_is_above_the_roof_has_a_ring(everything: Everything) -> None:
    def points(findings: Findings) -> list[bool]:
        """Whether each is a ring."""
        (axes,) = pictures(findings, "roofline")[0].axes
        marked = [line for line in axes.lines if line.get_marker() not in {"None", ""} and np.size(line.get_xdata())]
        return [line.get_markerfacecolor() == "none" for line in marked]

    findings = everything()
    assert points(findings).count(False) == sum(s.ok and s.cell.workload is Workload.FORWARD for s in findings.summaries)
    roof = {name: each.model_copy(update={"flops_per_second": 1e8}) for name, each in findings.run.surroundings.roof.items()}
    low = of_run(findings, surroundings={"roof": roof})
    assert sum(points(findings)) == 0 < sum(points(low))
    assert ["Ringed: above it" in caption(each, "roofline") for each in (findings, low)] == [False, True]


def of_run(findings: Findings, surroundings: dict[str, Any] | None = None, **about: Any) -> Findings:
    """The same of a run of which this is otherwise."""
    around = findings.run.surroundings.model_copy(update=surroundings or {})
    run = findings.run.model_copy(update={"surroundings": around, **about})
    return Findings(run, findings.summaries, findings.sections, findings.counter)


def test_a_run_says_what_it_lacks(everything: Everything, small: Synthetic, learning: Synthetic, generating: Synthetic) -> None:
    timed, trained, scored = found(small), found(learning), everything(workloads=(Workload.FIDELITY,))
    nothing = Findings.of(small.run().model_copy(update={"cells": ()}), [])
    for findings, kind, said in (
        (timed, "decode", "decodes nothing"),
        (timed, "pareto", "workloads: [forward, fidelity]"),
        (timed, "curves", "workloads: [train]"),
        (timed, "drawings", "drawings: 8"),
        (trained, "drawings", "drawings: 8"),
        (trained, "memory_against_time", "training: {recompute: [false, true]}"),
        (found(generating), "scaling", "neither a forward"),
        (scored, "scaling", "neither a forward"),
        (scored, "memory", "no cell of the run has a figure of memory"),
        (scored, "crossover", "no cell of the run has a time"),
        (scored, "roofline", "both a time and a cost"),
        (scored, "ratio", "no exact softmax"),
        (nothing, "scaling", "nothing of the run is left"),
        (of_run(everything(), {"roof": {}}), "roofline", "has no roof"),
        (of_run(everything(), costs={}), "roofline", "what it costs"),
    ):
        assert said in refused(findings, kind), kind


def test_methods_are_chosen_and_ordered_and_memory_is_by_the_counter_they_have(
    everything: Everything, small: Synthetic
) -> None:
    few = everything().only([Workload.FORWARD], ["sparse.strided", "softmax.sdpa"])
    assert few.labels == ["sparse.strided", "softmax.sdpa"]
    assert {section.workload for section in few.sections} == {Workload.FORWARD, Workload.FIDELITY}
    findings, name = found(small), "torch_profiler_peak"
    cells = [
        replace(s, memory=replace(s.memory, counters={name: s.memory.counters[name]}))
        if s.ok and s.cell.method == "softmax.naive"
        else s
        for s in findings.summaries
    ]
    only = Findings.over(findings.run, cells).only([], ["softmax.naive"])
    assert only.counter is not None
    assert only.counter.name == only.quantities["memory"].about == name


def test_every_kind_is_drawn_of_hostile_names(hostile: Synthetic) -> None:
    hostile.report = ReportSpec(baselines=("../../x",))
    findings = found(hostile)
    for kind in ("scaling", "memory", "ratio", "crossover", "roofline"):
        made = files(findings, kind, FOLDER, ("svg", "pgf"), "again")
        assert {name.partition(".")[2] for name in made} == {"svg", "pgf", "txt", "tex"}
        assert all(line.isprintable() for line in made[f"{kind}.txt"].decode().splitlines())


def test_pgf_holds_no_pixels(picturing: Synthetic) -> None:
    with pytest.raises(CannotDrawError, match="PGF holds no pixels; write it as pdf, svg or png"):
        files(found(picturing), "drawings", FOLDER, ("svg", "pgf"), "again")


@pytest.mark.parametrize(("on", "across"), [(FOLDER, 2), (PAPER, 2), (sheet(Style.PAPER, "single"), 1), (SLIDE, 2)])
def test_panels_stand_side_by_side_where_there_is_room_or_with_their_section(
    learning: Synthetic, on: Sheet, across: int
) -> None:
    panels = pictures(found(learning), "curves", on)[0].axes
    assert len({round(axes.get_position().x0, 3) for axes in panels}) == across
    assert across == 2 or {axes.get_title(loc="left") for axes in panels} == {"copy, N=128"}


def test_memory_stands_against_time_and_the_cells_of_a_method_are_joined(learning: Synthetic) -> None:
    learning.trainings = tuple(learning.trainings[0].model_copy(update={"recompute": again}) for again in (False, True))
    learning.lengths, cells = (64,), []
    for each in found(learning).summaries:
        if each.ok and each.cell.training and each.cell.training.recompute:
            # half the memory in twice the time
            counters = each.memory.counters.items()
            halved = {name: c.model_copy(update={"bytes": c.bytes and c.bytes // 2}) for name, c in counters}
            doubled = {seed: 2 * seconds for seed, seconds in each.medians.items()}
            each = replace(each, medians=doubled, memory=replace(each.memory, counters=halved))
        cells.append(each)
    findings = Findings.over(learning.run(), cells)
    (axes,) = pictures(findings, "memory_against_time")[0].axes
    assert axes.get_title(loc="left") == "causal, N = 64"
    paths = [(np.asarray(line.get_xdata()), np.asarray(line.get_ydata())) for line in axes.lines]
    joined = [(x[1] / x[0], y[0] / y[1]) for x, y in paths if len(x) == 2 and x[0] < x[1] and y[0] != y[1]]
    assert joined == [pytest.approx((2, 2), rel=1e-3)] * 4
    said = caption(findings, "memory_against_time")
    assert "from the largest marker to the smallest: no gradient checkpointing; gradient checkpointing." in said
    assert "Bars: the range of the replicates" in said
