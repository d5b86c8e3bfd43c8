"""What each kind of figure shows, and what it says where the run cannot give it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from attnbench.report.drawing import style
from attnbench.report.drawing.legend import GID
from attnbench.report.drawing.sheet import FOLDER, Sheet, Style, Width, sheet
from attnbench.report.figures.kinds import CannotDrawError, Kind
from attnbench.report.figures.make import drawn, files
from attnbench.report.figures.narrowed import narrowed
from attnbench.report.figures.pareto.tradeoffs import tradeoffs
from attnbench.report.findings import Findings
from attnbench.schema.cell import Workload
from attnbench.schema.suite import ReportSpec

if TYPE_CHECKING:
    from tests.report.conftest import Synthetic

Everything = Callable[..., Findings]
Draw = Callable[[Findings, Kind, Sheet], list[Figure]]
PAPER = sheet(Style.PAPER, Width.DOUBLE)


def legend(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts if text.get_gid() == GID]


def said(picture: Figure) -> set[str]:
    return {text.get_text() for text in picture.findobj(Text) if isinstance(text, Text)}


def caption(findings: Findings, kind: Kind) -> str:
    with style.applied():
        return "".join(drawing.caption for drawing in drawn(findings, kind, FOLDER))


def refused(findings: Findings, kind: Kind) -> str:
    with style.applied(), pytest.raises(CannotDrawError) as error:
        drawn(findings, kind, FOLDER)
    return str(error.value)


def test_scaling_is_time_of_what_does_not_decode(everything: Everything, draw: Draw) -> None:
    (picture,) = draw(everything(), Kind.SCALING, FOLDER)
    assert picture.texts[0].get_text() == "forward: time per sample"
    assert any(text.startswith("lsh.reformer(rounds=4) ") for text in legend(picture.axes[0]))


def test_memory_is_by_the_one_counter_of_the_run_of_each_workload(everything: Everything, draw: Draw) -> None:
    titles = [picture.texts[0].get_text() for picture in draw(everything(), Kind.MEMORY, FOLDER)]
    assert titles == ["forward: memory per sample (host_rss_peak)", "decode: memory per token (host_rss_peak)"]


def test_decoding_has_time_and_state_side_by_side_with_scales_of_their_own(everything: Everything, draw: Draw) -> None:
    (picture,) = draw(everything(), Kind.DECODE, FOLDER)
    time, state = picture.axes
    assert (time.get_ylabel(), state.get_ylabel()) == ("time per token", "state of one sequence")
    assert time.get_position().y0 == state.get_position().y0
    assert time.get_ylim() != state.get_ylim()
    assert "linear.chunked(chunk=64)  N^0.00" in legend(state)


def test_a_ratio_is_over_the_strongest_exact_one_which_is_the_line_at_1(everything: Everything, draw: Draw) -> None:
    (forward, _) = draw(everything(), Kind.RATIO, FOLDER)
    assert forward.texts[0].get_text() == "forward: time over that of softmax.sdpa"
    (axes,) = forward.axes
    assert not any(text.startswith("softmax.sdpa") for text in legend(axes))
    level = [line for line in axes.lines if list(line.get_ydata()) == [1.0, 1.0]]  # type: ignore[arg-type]
    assert len(level) == 1
    low, high = axes.get_ylim()
    assert low < 1 < high


def test_a_ratio_is_of_paired_replicates_with_an_interval(everything: Everything) -> None:
    findings = everything()
    words = caption(findings, Kind.RATIO)
    assert "Baseline: softmax.sdpa (causal, float32). Replicates paired by number" in words
    assert "n = 5 replicates a cell" in words
    assert "N^x" not in words


def test_crossings_are_told_in_the_caption(everything: Everything, draw: Draw) -> None:
    findings = everything()
    words = caption(findings, Kind.CROSSOVER)
    assert "linear.chunked(chunk=64) is faster than softmax.sdpa, forward, causal, float32" in words
    forward, _ = draw(findings, Kind.CROSSOVER, FOLDER)
    assert forward.texts[0].get_text() == "forward: time over that of softmax.sdpa"
    assert legend(forward.axes[0])[-1].startswith("sparse.wrong: wrong")


def test_of_more_methods_than_fit_those_that_cross_are_shown_and_the_others_counted(
    synthetic: "type[Synthetic]", law: Callable[..., object], draw: Draw
) -> None:
    laws = [law("softmax.sdpa", 3e-3, 2.0), *(law(f"slow.{i}", 1.0, 2.0) for i in range(20)), law("linear.x", 6e-3, 1.0)]
    run = synthetic(laws, lengths=(512, 1024, 2048, 4096), causal=(True,), workloads=(Workload.FORWARD,), replicates=5)  # type: ignore[arg-type]
    findings = Findings.of(run.run(), run.records())
    (picture,) = draw(findings, Kind.CROSSOVER, PAPER)
    shown = legend(picture.axes[0])
    assert len(shown) == PAPER.methods
    assert "linear.x" in shown
    assert "Not drawn: 5 pairs more" in caption(findings, Kind.CROSSOVER)


def test_a_roofline_has_a_point_a_cell_and_both_parts_of_the_roof(everything: Everything, draw: Draw) -> None:
    findings = everything()
    forward, decode = draw(findings, Kind.ROOFLINE, FOLDER)
    measured = [s for s in findings.summaries if s.ok and s.cell.workload is Workload.FORWARD]
    (axes,) = forward.axes
    marked = [
        line
        for line in axes.lines
        if line.get_marker() not in {"None", ""} and line.get_markerfacecolor() != "none" and line.get_clip_on()
    ]
    assert len(marked) == len(measured)
    assert "roof: 90.0 GFLOP/s, 17.0 GB/s" in legend(axes)
    assert {"N = 512", "N = 8k", "above the roof"} <= said(decode)


def test_what_is_above_the_roof_has_a_ring(everything: Everything, draw: Draw) -> None:
    def rings(findings: Findings) -> int:
        (axes,) = draw(findings, Kind.ROOFLINE, FOLDER)[0].axes
        return sum(line.get_markerfacecolor() == "none" and line.get_marker() == "o" for line in axes.lines)

    findings = everything()
    roof = {name: each.model_copy(update={"flops_per_second": 1e8}) for name, each in findings.run.surroundings.roof.items()}
    low = findings.run.surroundings.model_copy(update={"roof": roof})
    lowered = Findings(
        findings.run.model_copy(update={"surroundings": low}), findings.summaries, findings.sections, findings.counter
    )
    assert rings(findings) < rings(lowered)
    assert "Ringed: above it" in caption(findings, Kind.ROOFLINE)


def test_a_front_is_of_error_and_recall_against_time_memory_and_state(everything: Everything, draw: Draw) -> None:
    rows = tradeoffs(everything())
    assert [row[0].loss.name for row in rows] == ["output error", "1 - mass recall"]
    assert [each.cost.name for each in rows[0]] == [
        "time per sample, forward",
        "memory per sample, forward",
        "time per token, decode",
        "memory per token, decode",
        "state of one sequence, decode",
    ]
    (picture,) = draw(everything(workloads=(Workload.FORWARD, Workload.FIDELITY)), Kind.PARETO, FOLDER)
    assert [axes.get_xlabel() for axes in picture.axes] == ["time per sample, forward", "memory per sample, forward"] * 2
    assert [axes.get_title(loc="left") for axes in picture.axes] == ["causal, N = 2k"] * 4


def test_cost_and_loss_are_of_one_method_at_one_length(everything: Everything) -> None:
    # more than one sequence at all but the longest
    findings = everything(tokens=8192)
    time = tradeoffs(findings)[0][0]
    (sdpa,) = [candidate for candidate in time.candidates if candidate.label == "softmax.sdpa"]
    (cell,) = [
        s
        for s in findings.summaries
        if (s.cell.workload, s.cell.label, s.cell.problem.N) == (Workload.FORWARD, "softmax.sdpa", time.N)
    ]
    assert cell.B > 1
    assert sdpa.cost == cell.time
    assert sdpa.loss.value == pytest.approx(3e-7, rel=0.1)


def test_what_has_no_point_is_named_with_its_status(everything: Everything) -> None:
    assert "No point for time per sample, forward at N = 2k: sparse.wrong (wrong)." in caption(everything(), Kind.PARETO)


def test_quality_without_times_is_set_against_the_flops_of_the_definition(everything: Everything, draw: Draw) -> None:
    (picture,) = draw(everything(workloads=(Workload.FIDELITY,)), Kind.PARETO, FOLDER)
    assert {axes.get_xlabel() for axes in picture.axes} == {"FLOPs of the definition over dense attention's"}
    first, second = picture.axes
    assert first.get_position().y0 == second.get_position().y0


def test_a_run_says_what_it_lacks(everything: Everything, small: "Synthetic") -> None:
    findings = Findings.of(small.run(), small.records())
    assert "decodes nothing" in refused(findings, Kind.DECODE)
    assert "workloads: [forward, fidelity]" in refused(findings, Kind.PARETO)
    only = everything(workloads=(Workload.FIDELITY,))
    assert "neither a forward" in refused(only, Kind.SCALING)
    assert "no counter was read" in refused(only, Kind.MEMORY)
    assert "no cell of the run has a time" in refused(only, Kind.CROSSOVER)
    assert "both a time and a cost" in refused(only, Kind.ROOFLINE)
    assert "no exact softmax" in refused(only, Kind.RATIO)
    assert "nothing of the run is left" in refused(Findings.of(small.run().model_copy(update={"cells": ()}), []), Kind.SCALING)


def test_without_a_roof_or_costs_the_roofline_says_which(everything: Everything) -> None:
    findings = everything()
    bare = findings.run.model_copy(update={"surroundings": findings.run.surroundings.model_copy(update={"roof": {}})})
    assert "has no roof" in refused(Findings(bare, findings.summaries, findings.sections, None), Kind.ROOFLINE)
    free = findings.run.model_copy(update={"costs": {}})
    assert "what it costs" in refused(Findings(free, findings.summaries, findings.sections, None), Kind.ROOFLINE)


def test_an_unfinished_run_has_the_panels_of_what_was_planned(small: "Synthetic", draw: Draw) -> None:
    (picture,) = draw(Findings.of(small.run(), []), Kind.SCALING, PAPER)
    assert "nothing was measured" in said(picture)


def test_methods_are_chosen_and_ordered_and_told_apart_from_each_other_alone(everything: Everything, draw: Draw) -> None:
    findings = everything()
    few = narrowed(findings, [Workload.FORWARD], ["sparse.strided", "softmax.sdpa"])
    assert few.labels == ["sparse.strided", "softmax.sdpa"]
    assert {section.workload for section in few.sections} == {Workload.FORWARD, Workload.FIDELITY}
    assert drawn_looks(few, draw) == {label: (look.color, look.marker) for label, look in style.looks(few.labels).items()}


def test_one_workload_of_a_run_looks_as_all_of_it_does(everything: Everything, draw: Draw) -> None:
    findings = everything()
    assert drawn_looks(narrowed(findings, [Workload.FORWARD], []), draw) == drawn_looks(findings, draw)


def drawn_looks(findings: Findings, draw: Draw) -> dict[str, tuple[object, object]]:
    (picture,) = draw(findings, Kind.SCALING, FOLDER)
    axes = picture.axes[0]
    samples = [line for line in axes.lines if line.get_transform() == picture.dpi_scale_trans]
    entries = zip(legend(axes), samples, strict=True)
    return {text.split()[0]: (line.get_color(), line.get_marker()) for text, line in entries}


def test_every_kind_is_drawn_of_hostile_names(hostile: "Synthetic") -> None:
    hostile.report = ReportSpec(baselines=("../../x",))
    findings = Findings.of(hostile.run(), hostile.records())
    for kind in (Kind.SCALING, Kind.MEMORY, Kind.RATIO, Kind.CROSSOVER, Kind.ROOFLINE):
        made = files(findings, kind, FOLDER, ("svg", "pgf"), "again")
        assert {name.partition(".")[2] for name in made} == {"svg", "pgf", "txt"}
        assert all(line.isprintable() for line in made[f"{kind}.txt"].decode().splitlines())
