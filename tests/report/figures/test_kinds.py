"""What each kind of figure shows, and what it says where the run cannot give it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attnbench.report.drawing import style
from attnbench.report.drawing.kinds import CannotDrawError
from attnbench.report.drawing.sheet import FOLDER, SLIDE, Sheet, Style, sheet
from attnbench.report.figures.make import drawn, files
from attnbench.report.findings import Findings
from attnbench.schema.cell import Workload
from attnbench.schema.outcome import Measured
from attnbench.schema.suite import ReportSpec
from tests.report.conftest import Law, Synthetic
from tests.report.drawn import found, legend, pictures, refused, words
from tests.report.figures.conftest import Everything

PAPER = sheet(Style.PAPER)


def caption(findings: Findings, kind: str) -> str:
    with style.applied():
        return "".join(drawing.caption for drawing in drawn(findings, kind, FOLDER))


def test_time_and_state_of_decoding_stand_side_by_side_with_scales_of_their_own(everything: Everything) -> None:
    (picture,) = pictures(everything(), "decode")
    time, state = picture.axes
    assert time.get_position().y0 == state.get_position().y0
    assert time.get_ylim() != state.get_ylim()


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
    assert "Not drawn: 5 pairs more" in caption(findings, "crossover")


def test_a_roofline_has_a_point_a_cell(everything: Everything) -> None:
    (axes,) = pictures(everything(), "roofline")[0].axes
    points = [line for line in axes.lines if line.get_marker() not in {"None", ""} and np.size(line.get_xdata())]
    measured = [s for s in everything().summaries if s.ok and s.cell.workload is Workload.FORWARD]
    assert sum(point.get_markerfacecolor() != "none" for point in points) == len(measured)


def test_what_is_above_the_roof_has_a_ring(everything: Everything) -> None:
    def rings(findings: Findings) -> int:
        (axes,) = pictures(findings, "roofline")[0].axes
        return sum(line.get_markerfacecolor() == "none" and line.get_marker() == "o" for line in axes.lines)

    findings = everything()
    roof = {name: each.model_copy(update={"flops_per_second": 1e8}) for name, each in findings.run.surroundings.roof.items()}
    assert rings(findings) < rings(of_run(findings, surroundings={"roof": roof}))
    assert "Ringed: above it" in caption(findings, "roofline")


def of_run(findings: Findings, surroundings: dict[str, Any] | None = None, **about: Any) -> Findings:
    """The same of a run of which this is otherwise."""
    around = findings.run.surroundings.model_copy(update=surroundings or {})
    run = findings.run.model_copy(update={"surroundings": around, **about})
    return Findings(run, findings.summaries, findings.sections, findings.counter)


def test_a_run_says_what_it_lacks(everything: Everything, small: Synthetic, learning: Synthetic, generating: Synthetic) -> None:
    timed, trained, scored = found(small), found(learning), everything(workloads=(Workload.FIDELITY,))
    nothing = Findings.of(small.run().model_copy(update={"cells": ()}), [])
    lacks = [
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
    ]
    for findings, kind, said in lacks:
        assert said in refused(findings, kind), kind


def test_an_unfinished_run_has_the_panels_of_what_was_planned(small: Synthetic) -> None:
    (picture,) = pictures(Findings.of(small.run(), []), "scaling", PAPER)
    assert "nothing was measured" in words(picture)


def test_methods_are_chosen_and_ordered_and_their_memory_is_by_the_counter_that_they_have(
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


# training


def test_pgf_holds_curves_and_no_pixels(picturing: Synthetic) -> None:
    assert "curves.pgf" in files(found(picturing), "curves", FOLDER, ("pgf",), "again")
    with pytest.raises(CannotDrawError, match="PGF holds no pixels; write it as pdf, svg or png"):
        files(found(picturing), "drawings", FOLDER, ("svg", "pgf"), "again")


@pytest.mark.parametrize(("on", "across"), [(FOLDER, 2), (PAPER, 2), (sheet(Style.PAPER, "single"), 1), (SLIDE, 2)])
def test_panels_stand_side_by_side_as_there_is_room_and_alone_with_their_section(
    learning: Synthetic, on: Sheet, across: int
) -> None:
    panels = pictures(found(learning), "curves", on)[0].axes
    assert len({round(axes.get_position().x0, 3) for axes in panels}) == across
    assert across == 2 or {axes.get_title(loc="left") for axes in panels} == {"copy, N=128"}


def test_memory_stands_against_time_and_the_cells_of_a_method_are_joined(learning: Synthetic) -> None:
    learning.lengths = (64,)
    learning.trainings = tuple(learning.trainings[0].model_copy(update={"recompute": again}) for again in (False, True))
    records = []
    for record in learning.records():
        training, outcome = record.job.cell.training, record.outcome
        if training and training.recompute and isinstance(outcome, Measured):
            # half the memory in twice the time
            counters = {name: c.model_copy(update={"bytes": c.bytes and c.bytes // 2}) for name, c in outcome.memory.items()}
            seconds = {
                name: s.model_copy(update={"values": tuple(2 * x for x in s.values)}) if name == "time" else s
                for name, s in outcome.samples.items()
            }
            outcome = outcome.model_copy(update={"memory": counters, "samples": seconds})
        records.append(record.model_copy(update={"outcome": outcome}))
    findings = Findings.of(learning.run(), records)
    (picture,) = pictures(findings, "memory_against_time")
    (axes,) = picture.axes
    assert axes.get_title(loc="left") == "causal, N = 64"
    paths = [(np.asarray(line.get_xdata()), np.asarray(line.get_ydata())) for line in axes.lines]
    joined = [(x, y) for x, y in paths if len(x) == 2 and x[0] < x[1] and y[0] != y[1]]
    assert len(joined) == 4
    for (fast, slow), (large, small) in joined:
        assert slow / fast == pytest.approx(2)
        assert large / small == pytest.approx(2, rel=1e-3)
    assert {"no gradient checkpointing", "gradient checkpointing", "softmax.sdpa"} <= set(legend(picture))
    said = caption(findings, "memory_against_time")
    assert "from the largest marker to the smallest: no gradient checkpointing; gradient checkpointing." in said
    assert "Bars: the range of the replicates" in said
