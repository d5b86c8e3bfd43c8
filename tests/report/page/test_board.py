"""Which cells of several runs are shown in one view: those that are alike in all but the method and N."""

from collections.abc import Callable

import pytest

from attnbench.report.findings import Findings
from attnbench.report.page.board import Board
from attnbench.schema.cell import Batch, Workload
from attnbench.schema.training import Task, Training
from tests.report.conftest import Law, Synthetic
from tests.report.drawn import found

Shaped = Callable[..., Findings]


@pytest.fixture
def shaped() -> Shaped:
    """Findings of a small run; what is named replaces a field."""

    def _shaped(**fields: object) -> Findings:
        known: dict[str, object] = {
            "lengths": (512, 1024),
            "causal": (True,),
            "workloads": (Workload.FORWARD,),
            "replicates": 1,
        }
        laws = (Law("softmax.sdpa", 3e-3, 1.95), Law("linear.chunked", 2e-3, 1.0))
        return found(Synthetic(laws, **{**known, **fields}))  # type: ignore[arg-type]

    return _shaped


def views(*runs: Findings) -> dict[str, list[int]]:
    """By title, the runs of each group."""
    return {group.section.title: [run for run, _ in group.members] for group in Board(runs).groups}


def test_runs_of_unlike_heads_are_apart_and_say_how_many_they_have(shaped: Shaped) -> None:
    assert views(shaped(heads=(2,)), shaped(heads=(8,))) == {
        "forward, causal, float32, H=2": [0],
        "forward, causal, float32, H=8": [1],
    }


def test_alike_cells_are_together_whatever_else_varies_in_their_runs(shaped: Shaped) -> None:
    assert views(shaped(heads=(2, 8)), shaped(heads=(8,), lengths=(2048,))) == {
        "forward, causal, float32, H=2": [0],
        "forward, causal, float32, H=8": [0, 1],
    }


def test_what_is_alike_everywhere_is_not_named(shaped: Shaped) -> None:
    assert views(shaped(heads=(2,)), shaped(heads=(2,), lengths=(512,))) == {"forward, causal, float32": [0, 1]}


def test_runs_of_unlike_batches_are_apart(shaped: Shaped) -> None:
    both = shaped(batches=(Batch.FIXED, Batch.LARGEST))
    assert views(shaped(tokens=1), shaped(tokens=8192), both) == {
        "forward, causal, float32, B=1": [0, 2],
        "forward, causal, float32, tokens=8192": [1],
        "forward, causal, float32, largest B that fits": [2],
    }


def test_models_that_were_trained_for_longer_are_apart(shaped: Shaped) -> None:
    def trained(updates: int) -> Findings:
        models = (Training(task=Task.COPY, updates=updates),)
        return shaped(workloads=(Workload.TRAIN,), lengths=(128,), trainings=models)

    assert views(trained(100), trained(2000)) == {
        "train, causal, float32, updates=100": [0],
        "train, causal, float32, updates=2000": [1],
    }


def test_the_view_that_is_shown_first_is_that_of_the_first_run_s_sentence(shaped: Shaped) -> None:
    board = Board((shaped(workloads=(Workload.FORWARD, Workload.FORWARD_BACKWARD), heads=(2,)), shaped(heads=(8,))))
    assert board.groups[board.first].section.title == "forward_backward, causal, float32, H=2"


def test_a_run_alone_is_shown_under_the_titles_of_its_tables(shaped: Shaped) -> None:
    findings = shaped(heads=(2, 8), batches=(Batch.FIXED, Batch.LARGEST), causal=(True, False))
    assert list(views(findings)) == [section.title for section in findings.sections]
