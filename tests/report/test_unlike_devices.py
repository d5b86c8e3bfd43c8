"""A run that was measured on unlike devices: the cells of one never stand beside those of another."""

import pytest

from attnbench.analyze.points import points
from attnbench.analyze.roofline import placed
from attnbench.library.compare import _unlike
from attnbench.report import console
from attnbench.report.findings import Findings
from attnbench.schema.cell import Workload
from attnbench.schema.errand import Roof
from attnbench.schema.record import Record
from attnbench.schema.run import Elsewhere, RunInfo
from tests.report.conftest import Law, Synthetic

HERE, THERE = "8f49cfc01159", "0123456789ab"
LAWS = (Law("softmax.sdpa", 3e-3, 2.0), Law("linear.chunked", 4e-3, 1.0))


@pytest.fixture
def findings() -> Findings:
    """Short lengths were measured on one processor, long ones on another."""
    made = Synthetic(LAWS, (512, 1024, 2048, 4096), (True,), (Workload.FORWARD,))
    run = made.run()
    facts = {**run.environment, "processor": "Intel Xeon 8481C", "cores": 8, "threads": 8}
    roof = {"float32": Roof(flops_per_second=9e11, bytes_per_second=1.7e11)}
    there = run.surroundings.model_copy(update={"facts": facts, "roof": roof})
    run = run.model_copy(update={"elsewhere": {THERE: Elsewhere(environment=facts, surroundings=there)}})
    return Findings.of(run, [moved(record) for record in made.records()])


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
