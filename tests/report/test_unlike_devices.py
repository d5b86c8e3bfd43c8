"""A run that was measured on unlike devices: the cells of one never stand beside those of another."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from attnbench.analyze.points import points
from attnbench.analyze.roofline import placed
from attnbench.library.compare import _unlike
from attnbench.report import console
from attnbench.report.conditions import short_machine
from attnbench.report.exports.exchange import Source
from attnbench.report.exports.formats import FORMATS
from attnbench.report.findings import Findings
from attnbench.report.page.board import Board
from attnbench.report.page.parts import environment
from attnbench.report.questions.comparison.judgement import judge_runs
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import Roof
from attnbench.schema.record import Record
from attnbench.schema.run import Elsewhere, RunInfo
from tests.report.conftest import Law, Synthetic
from tests.report.drawn import drawings, legend, pictures, refused, title, words
from tests.report.figures.conftest import recorded
from tests.report.page.reading import data

HERE, THERE = "8f49cfc01159", "0123456789ab"
EPYC, XEON = "AMD EPYC 9B14, AVX512, 2 cores, 2 threads", "Intel Xeon 8481C, AVX512, 8 cores, 8 threads"
LAWS = (Law("softmax.sdpa", 3e-3, 2.0), Law("linear.chunked", 4e-3, 1.0))
MADE = Synthetic(LAWS, (512, 1024, 2048, 4096), (True,), (Workload.FORWARD,))


def merged(run: RunInfo) -> RunInfo:
    """Return a run that was measured on another processor too."""
    facts = {**run.environment, "processor": "Intel Xeon 8481C", "cores": 8, "threads": 8}
    roof = {"float32": Roof(flops_per_second=9e11, bytes_per_second=1.7e11)}
    there = run.surroundings.model_copy(update={"facts": facts, "roof": roof})
    return run.model_copy(update={"elsewhere": {THERE: Elsewhere(environment=facts, surroundings=there)}})


def moved(records: Sequence[Record], there: Callable[[Cell], bool]) -> list[Record]:
    """Return records of which those of some cells were measured on the other processor."""
    return [record.model_copy(update={"environment": THERE if there(record.job.cell) else HERE}) for record in records]


RECORDS = moved(MADE.records(), lambda cell: cell.problem.N > 1024)
"""Short lengths were measured on one processor, long ones on another."""


@pytest.fixture
def findings() -> Findings:
    return Findings.of(merged(MADE.run()), RECORDS)


def test_each_device_has_sections_of_its_own_and_both_are_named(findings: Findings) -> None:
    sections = {section.conditions: section.lengths for section in findings.sections}
    assert sections == {f"float32, {EPYC}": (512, 1024), f"float32, {XEON}": (2048, 4096)}
    text = " ".join(console.summary(findings).split())
    assert "AMD EPYC 9B14, AVX512, 2 cores, 24 GiB memory, 2 threads" in text
    assert f"also {XEON}, environment {THERE}" in text
    assert short_machine(findings) == "2 cores (AMD EPYC 9B14) and 8 cores (Intel Xeon 8481C)"


def test_a_share_of_the_roof_is_that_of_a_cell_s_device_and_a_history_keeps_the_run_s_own(findings: Findings) -> None:
    found = {cell.cell.problem.N: placed(cell, findings.run) for cell in findings.summaries}
    peaks = {N: each.roof.flops_per_second for N, each in found.items() if each}
    assert peaks == {512: 9e10, 1024: 9e10, 2048: 9e11, 4096: 9e11}
    assert {point.cell.problem.N for point in points(findings.run, RECORDS).points} == {512, 1024}


@pytest.mark.parametrize("to", ["pytest-benchmark", "pyperf", "asv"])
def test_an_export_that_names_one_machine_says_which_cells_it_hides(to: str) -> None:
    for run, said in ((MADE.run(), []), (merged(MADE.run()), [f"all cells are under {EPYC}, also those of {XEON}"])):
        whole = run.model_copy(update={"git": {"commit": "0" * 40}})
        notes = FORMATS[to].make([Source(Findings.of(whole, RECORDS), RECORDS)]).notes
        assert [note.rpartition(": ")[2] for note in notes if "one machine" in note] == said


def test_two_runs_are_unlike_where_one_cell_was_measured_on_unlike_devices(findings: Findings) -> None:
    alone = Findings.of(MADE.run(), MADE.records())
    assert _unlike(alone, findings) == (EPYC, XEON)
    assert _unlike(findings, findings) is None
    assert any(line.startswith("Not alike: environment.processor") for line in judge_runs(alone, findings, 0.05, 0.05).remarks)
    assert not judge_runs(findings, findings, 0.05, 0.05).remarks
    short = Synthetic(LAWS, (512, 1024), (True,), (Workload.FORWARD,))
    assert _unlike(Findings.of(short.run(), short.records()), findings) is None


def test_devices_of_one_name_and_unlike_software_are_told_apart(findings: Findings) -> None:
    run = findings.run
    same = Elsewhere(environment={**run.environment, "torch": "3"}, surroundings=run.surroundings)
    made = Findings.over(run.model_copy(update={"elsewhere": {THERE: same}}), findings.summaries)
    found = {section.conditions.rpartition(", ")[2] for section in made.sections}
    assert found == {f"environment {HERE}", f"environment {THERE}"}


# figures


@pytest.mark.parametrize("kind", ["time", "ratio", "crossover", "roofline"])
def test_each_panel_names_its_device_and_the_figure_none_for_all(findings: Findings, kind: str) -> None:
    (drawing,) = drawings(findings, kind)
    (picture,) = drawing.sheets
    panels = [axes.get_title(loc="left") for axes in picture.axes]
    assert panels == [f"causal, float32, {EPYC}", f"causal, float32, {XEON}"]
    assert title(picture)[1].endswith("each panel names its device")
    assert "AMD EPYC 9B14; Intel Xeon 8481C." in drawing.caption.partition("\n\n")[0]
    roofs = [text.get_text() for axes in picture.axes for text in axes.texts if text.get_text().startswith("roof: ")]
    own = ["roof: 90.0 GFLOP/s, 17.0 GB/s", "roof: 900 GFLOP/s, 170 GB/s"]
    assert roofs == (own if kind == "roofline" else [])


def test_where_all_cells_are_of_one_device_that_one_is_named(findings: Findings) -> None:
    made = Synthetic(LAWS, (512, 1024), (True,), (Workload.FORWARD, Workload.FORWARD_BACKWARD))
    records = moved(made.records(), lambda cell: cell.workload is Workload.FORWARD_BACKWARD)
    _, backward = drawings(Findings.of(merged(made.run()), records), "time")
    assert title(backward.sheets[0])[1] == f"float32, {XEON}"
    assert "Intel Xeon 8481C." in backward.caption.partition("\n\n")[0]
    assert "EPYC" not in backward.caption.partition("\n\n")[0]
    # and of what is left of a run that was measured on both
    left = Findings.over(findings.run, [cell for cell in findings.summaries if cell.environment == THERE])
    (picture,) = pictures(left, "time")
    assert title(picture)[1] == "float32, Intel Xeon 8481C (cpu)"
    assert short_machine(left) == "8 cores (Intel Xeon 8481C)"


def test_a_time_of_another_device_than_the_score_says_so_on_its_axis() -> None:
    info, records = recorded(replace(MADE, lengths=(512,), workloads=(Workload.FORWARD, Workload.FIDELITY)))
    (picture,) = pictures(Findings.of(merged(info), moved(records, lambda cell: not cell.workload.is_timed)), "pareto")
    assert title(picture)[1] == f"float32, {XEON}"
    across = [f"{each} per sample, forward\non {EPYC}" for each in ("time", "memory")]
    assert [axes.get_xlabel() for axes in picture.axes] == 2 * across
    (picture,) = pictures(Findings.of(merged(info), moved(records, lambda cell: cell.method == "softmax.sdpa")), "pareto")
    assert {axes.get_xlabel() for axes in picture.axes} == {"time per sample, forward", "memory per sample, forward"}


def test_memory_against_time_joins_what_one_device_measured_alone() -> None:
    made = replace(MADE, lengths=(512, 1024), heads=(8, 16))
    apart = Findings.of(merged(made.run()), moved(made.records(), lambda cell: cell.problem.H == 16))
    assert "memory under two sets of conditions" in refused(apart, "memory_against_time")
    both = Findings.of(merged(made.run()), moved(made.records(), lambda cell: cell.problem.N == 1024))
    (picture,) = pictures(both, "memory_against_time")
    assert [axes.get_title(loc="left") for axes in picture.axes] == [f"causal, N = 512, {EPYC}", f"causal, N = 1k, {XEON}"]
    assert set(legend(picture)) == {"softmax.sdpa", "linear.chunked", "H=8", "H=16"}


def test_a_device_without_a_roof_does_not_keep_others_from_theirs(findings: Findings) -> None:
    bare = findings.run.surroundings.model_copy(update={"roof": {}})
    (picture,) = pictures(Findings.over(findings.run.model_copy(update={"surroundings": bare}), findings.summaries), "roofline")
    assert "roof: 900 GFLOP/s, 170 GB/s" in words(picture)
    assert len(picture.axes) == 1


# the page


def test_a_page_has_the_roof_and_the_environment_of_each_device(findings: Findings) -> None:
    assert [group["roofs"] for group in data(findings)["groups"]] == [{"0": [9e10, 1.7e10]}, {"0": [9e11, 1.7e11]}]
    table = environment(Board((findings,)))
    assert table.headers == ("fact", EPYC, XEON)
    rows = {name: values for name, *values in table.rows}
    assert (rows["processor"], rows["environment"]) == (["AMD EPYC 9B14", "Intel Xeon 8481C"], [HERE, THERE])
    assert [text.partition(" in ")[0] for text in rows["roof, float32"]] == ["90.0 GFLOP/s", "900 GFLOP/s"]
