"""A run that was measured on unlike devices: the cells of one never stand beside those of another."""

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
from attnbench.schema.cell import Workload
from attnbench.schema.errand import Roof
from attnbench.schema.record import Record
from attnbench.schema.run import Elsewhere, RunInfo
from tests.report.conftest import Law, Synthetic
from tests.report.drawn import drawings, pictures, title, words
from tests.report.page.reading import data

HERE, THERE = "8f49cfc01159", "0123456789ab"
LAWS = (Law("softmax.sdpa", 3e-3, 2.0), Law("linear.chunked", 4e-3, 1.0))


@pytest.fixture
def findings() -> Findings:
    """Short lengths were measured on one processor, long ones on another."""
    made = Synthetic(LAWS, (512, 1024, 2048, 4096), (True,), (Workload.FORWARD,))
    return Findings.of(merged(made.run()), [moved(record) for record in made.records()])


def merged(run: RunInfo) -> RunInfo:
    """Return a run that was measured on another processor too."""
    facts = {**run.environment, "processor": "Intel Xeon 8481C", "cores": 8, "threads": 8}
    roof = {"float32": Roof(flops_per_second=9e11, bytes_per_second=1.7e11)}
    there = run.surroundings.model_copy(update={"facts": facts, "roof": roof})
    return run.model_copy(update={"elsewhere": {THERE: Elsewhere(environment=facts, surroundings=there)}})


def moved(record: Record) -> Record:
    digest = THERE if record.job.cell.problem.N > 1024 else HERE
    return record.model_copy(update={"environment": digest})


def test_each_device_has_sections_of_its_own_that_name_it(findings: Findings) -> None:
    titles = {section.conditions: section.lengths for section in findings.sections}
    assert titles == {
        "float32, AMD EPYC 9B14, 2 cores, 2 threads": (512, 1024),
        "float32, Intel Xeon 8481C, 8 cores, 8 threads": (2048, 4096),
    }


def test_the_summary_names_both(findings: Findings) -> None:
    text = " ".join(console.summary(findings).split())
    assert "AMD EPYC 9B14, 2 cores, 24 GiB memory, 2 threads" in text
    assert "also Intel Xeon 8481C, 8 cores, 8 threads, environment 0123456789ab" in text


def test_a_share_of_the_roof_is_that_of_the_device_on_which_a_cell_was_measured(findings: Findings) -> None:
    found = {cell.cell.problem.N: placed(cell, findings.run) for cell in findings.summaries}
    assert {N: each.peak_flops_per_second for N, each in found.items() if each} == {
        512: 9e10,
        1024: 9e10,
        2048: 9e11,
        4096: 9e11,
    }
    roof = findings.quantities["roof"]
    shares = {cell.cell.problem.N: roof.estimate(cell) for cell in findings.summaries if cell.cell.method == "softmax.sdpa"}
    assert shares[1024] is not None
    assert shares[2048] is not None
    assert shares[1024].value > 5 * shares[2048].value


@pytest.mark.parametrize("to", ["pytest-benchmark", "pyperf", "asv"])
def test_an_export_that_names_one_machine_says_which_cells_it_hides(to: str) -> None:
    made = Synthetic(LAWS, (512, 1024, 2048, 4096), (True,), (Workload.FORWARD,))
    run, records = merged(made.run()), [moved(record) for record in made.records()]
    run = run.model_copy(update={"git": {"commit": "0" * 40}})
    notes = FORMATS[to].make([Source(Findings.of(run, records), records)]).notes
    (said,) = (note for note in notes if "one machine" in note)
    assert said.endswith(
        "all cells are under AMD EPYC 9B14, 2 cores, 2 threads, also those of Intel Xeon 8481C, 8 cores, 8 threads"
    )
    alone = FORMATS[to].make([Source(Findings.of(made.run().model_copy(update={"git": run.git}), records), records)]).notes
    assert not any("one machine" in note for note in alone)


def test_a_history_keeps_what_was_measured_on_the_run_s_own_device(findings: Findings) -> None:
    made = Synthetic(LAWS, (512, 1024, 2048, 4096), (True,), (Workload.FORWARD,))
    kept = points(findings.run, [moved(record) for record in made.records()])
    assert {point.cell.problem.N for point in kept.points} == {512, 1024}


def test_two_runs_are_unlike_where_one_cell_was_measured_on_unlike_devices(findings: Findings) -> None:
    made = Synthetic(LAWS, (512, 1024, 2048, 4096), (True,), (Workload.FORWARD,))
    alone = Findings.of(made.run(), made.records())
    assert _unlike(alone, findings) == ("AMD EPYC 9B14, 2 cores, 2 threads", "Intel Xeon 8481C, 8 cores, 8 threads")
    assert _unlike(findings, findings) is None
    short = Synthetic(LAWS, (512, 1024), (True,), (Workload.FORWARD,))
    assert _unlike(Findings.of(short.run(), short.records()), findings) is None


def test_devices_of_one_name_and_unlike_software_are_told_apart(findings: Findings) -> None:
    run = findings.run
    same = Elsewhere(environment={**run.environment, "torch": "3"}, surroundings=run.surroundings)
    both: RunInfo = run.model_copy(update={"elsewhere": {THERE: same}})
    made = Findings.over(both, findings.summaries)
    assert {section.conditions.rpartition(", ")[2] for section in made.sections} == {
        f"environment {HERE}",
        f"environment {THERE}",
    }


# figures

PANELS = ["causal, float32, AMD EPYC 9B14, 2 cores, 2 threads", "causal, float32, Intel Xeon 8481C, 8 cores, 8 threads"]


@pytest.mark.parametrize("kind", ["time", "ratio", "crossover", "roofline"])
def test_each_panel_names_its_device_and_the_figure_none_for_all(findings: Findings, kind: str) -> None:
    (drawing,) = drawings(findings, kind)
    (picture,) = drawing.sheets
    assert [axes.get_title(loc="left") for axes in picture.axes] == PANELS
    assert title(picture)[1].endswith("each panel names its device")
    assert "AMD EPYC 9B14; Intel Xeon 8481C." in drawing.caption.partition("\n\n")[0]


def test_where_all_panels_are_of_one_device_that_one_is_named() -> None:
    made = Synthetic(LAWS, (512, 1024), (True,), (Workload.FORWARD, Workload.FORWARD_BACKWARD))
    records = [
        record.model_copy(update={"environment": HERE if record.job.cell.workload is Workload.FORWARD else THERE})
        for record in made.records()
    ]
    _, backward = drawings(Findings.of(merged(made.run()), records), "time")
    assert title(backward.sheets[0])[1] == "float32, Intel Xeon 8481C, 8 cores, 8 threads"
    assert "Intel Xeon 8481C." in backward.caption.partition("\n\n")[0]
    assert "EPYC" not in backward.caption.partition("\n\n")[0]


def test_what_is_left_of_a_run_is_named_by_its_own_device(findings: Findings) -> None:
    there = Findings.over(findings.run, [cell for cell in findings.summaries if cell.environment == THERE])
    (picture,) = pictures(there, "time")
    assert title(picture)[1] == "float32, Intel Xeon 8481C (cpu)"
    assert short_machine(there) == "8 cores (Intel Xeon 8481C)"
    assert short_machine(findings) == "2 cores (AMD EPYC 9B14) and 8 cores (Intel Xeon 8481C)"


def test_a_roofline_has_the_roof_of_the_device_of_its_panel(findings: Findings) -> None:
    (picture,) = pictures(findings, "roofline")
    roofs = [text.get_text() for axes in picture.axes for text in axes.texts if text.get_text().startswith("roof: ")]
    assert roofs == ["roof: 90.0 GFLOP/s, 17.0 GB/s", "roof: 900 GFLOP/s, 170 GB/s"]


def test_a_device_without_a_roof_does_not_keep_others_from_theirs(findings: Findings) -> None:
    bare = findings.run.surroundings.model_copy(update={"roof": {}})
    (picture,) = pictures(Findings.over(findings.run.model_copy(update={"surroundings": bare}), findings.summaries), "roofline")
    assert "roof: 900 GFLOP/s, 170 GB/s" in words(picture)
    assert len(picture.axes) == 1


# the page


def test_a_page_has_the_roof_of_the_device_of_each_group(findings: Findings) -> None:
    made = data(findings)
    assert [group["roofs"] for group in made["groups"]] == [{"0": [9e10, 1.7e10]}, {"0": [9e11, 1.7e11]}]


def test_the_environment_on_a_page_is_that_of_each_device(findings: Findings) -> None:
    table = environment(Board((findings,)))
    assert table.headers == ("fact", "AMD EPYC 9B14, 2 cores, 2 threads", "Intel Xeon 8481C, 8 cores, 8 threads")
    rows = {name: values for name, *values in table.rows}
    assert rows["processor"] == ["AMD EPYC 9B14", "Intel Xeon 8481C"]
    assert rows["environment"] == [HERE, THERE]
    assert [text.partition(" in ")[0] for text in rows["roof, float32"]] == ["90.0 GFLOP/s", "900 GFLOP/s"]
