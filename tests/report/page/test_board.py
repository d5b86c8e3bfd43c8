"""Which cells of several runs are shown in one view: those that are alike in all but the method and N."""

from typing import Any

import pytest

from attnbench.report.findings import Findings
from attnbench.report.page.board import Board
from attnbench.schema.cell import Batch, Workload
from attnbench.schema.training import Task, Training
from tests.report.conftest import Law, Synthetic
from tests.report.drawn import found

LAWS = (Law("softmax.sdpa", 3e-3, 1.95), Law("linear.chunked", 2e-3, 1.0))
BOTH = (Batch.FIXED, Batch.LARGEST)


def shaped(**fields: Any) -> Findings:
    """Return findings of a small run; what is named replaces a field."""
    known = {"lengths": (512, 1024), "causal": (True,), "workloads": (Workload.FORWARD,), "replicates": 1}
    return found(Synthetic(LAWS, **known | fields))


def trained(updates: int) -> dict[str, Any]:
    return {"workloads": (Workload.TRAIN,), "lengths": (128,), "trainings": (Training(task=Task.COPY, updates=updates),)}


def views(*runs: Findings) -> dict[str, list[int]]:
    """By title, the runs of each group."""
    return {group.section.title: [run for run, _ in group.members] for group in Board(runs).groups}


@pytest.mark.parametrize(
    ("runs", "wanted"),
    [
        pytest.param(
            [{"heads": (2,)}, {"heads": (8,)}],
            {"forward, causal, float32, H=2": [0], "forward, causal, float32, H=8": [1]},
            id="unlike heads",
        ),
        pytest.param(
            [{"heads": (2, 8)}, {"heads": (8,), "lengths": (2048,)}],
            {"forward, causal, float32, H=2": [0], "forward, causal, float32, H=8": [0, 1]},
            id="alike cells, whatever else varies in their runs",
        ),
        pytest.param(
            [{"heads": (2,)}, {"heads": (2,), "lengths": (512,)}],
            {"forward, causal, float32": [0, 1]},
            id="what is alike everywhere is not named",
        ),
        pytest.param(
            [{"tokens": 1}, {"tokens": 8192}, {"batches": BOTH}],
            {
                "forward, causal, float32, B=1": [0, 2],
                "forward, causal, float32, tokens=8192": [1],
                "forward, causal, float32, largest B that fits": [2],
            },
            id="unlike batches",
        ),
        pytest.param(
            [trained(100), trained(2000)],
            {"train, causal, float32, updates=100": [0], "train, causal, float32, updates=2000": [1]},
            id="models that were trained for longer",
        ),
    ],
)
def test_what_is_alike_is_shown_together_under_what_tells_it_apart(
    runs: list[dict[str, Any]], wanted: dict[str, list[int]]
) -> None:
    assert views(*(shaped(**fields) for fields in runs)) == wanted


def test_the_view_that_is_shown_first_is_that_of_the_first_run_s_sentence() -> None:
    board = Board((shaped(workloads=(Workload.FORWARD, Workload.FORWARD_BACKWARD), heads=(2,)), shaped(heads=(8,))))
    assert board.groups[board.first].section.title == "forward_backward, causal, float32, H=2"


def test_a_run_alone_is_shown_under_the_titles_of_its_tables() -> None:
    findings = shaped(heads=(2, 8), batches=BOTH, causal=(True, False))
    assert list(views(findings)) == [section.title for section in findings.sections]
