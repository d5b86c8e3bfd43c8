"""How far a measurement is: what counts as done, what is said, and that nothing is said twice."""

from collections.abc import Callable
from unittest.mock import Mock, call

import pytest

from attnbench.schema.cell import Cell
from attnbench.schema.errand import Job, Pass
from attnbench.schema.outcome import SERVER, Failed, Measured, Series, Status
from attnbench.schema.problem import Problem
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.session.progress import Progress, block_of, processes
from attnbench.session.reporter import Reporter

CELLS = tuple(Cell(method=method, problem=Problem(N=64)) for method in ("a", "b"))


@pytest.fixture
def info(info_of: Callable[..., RunInfo]) -> RunInfo:
    return info_of(CELLS, {"replicates": 3})


@pytest.fixture
def told() -> Mock:
    return Mock(spec=Reporter)


def record(cell: Cell, replicate: int = 0, failed: Status | None = None, phase: Pass = Pass.TIME) -> Record:
    measured = Measured(samples={"time": Series(unit="s", values=(1.0,))}, facts={SERVER: "it was started anew"})
    outcome = Failed(status=failed, reason="so it is") if failed else measured
    job = Job(cell=cell, phase=phase, replicate=replicate)
    return Record(job=job, outcome=outcome, environment="e", started="x", seconds=2.0)


@pytest.mark.parametrize(
    ("taken", "given_up", "left"),
    [
        (record(CELLS[0]), True, 5),
        (record(CELLS[0], failed=Status.ERROR), True, 3),
        (record(CELLS[0], failed=Status.ERROR), False, 5),
        (record(CELLS[0], failed=Status.INTERRUPTED), True, 6),
        (record(CELLS[0], phase=Pass.MEMORY), True, 6),
    ],
    ids=["it was measured", "it failed and is given up", "it failed alone", "not an interrupted one", "nor by its memory"],
)
def test_a_process_is_done_when_it_need_not_be_measured_any_more(
    taken: Record, given_up: bool, left: int, info: RunInfo, told: Mock
) -> None:
    assert len(Progress(told, processes(info), records=[taken], given_up=given_up).left) == left


def test_a_bar_and_blocks_say_how_far_it_is_and_a_remark_is_said_once(info: RunInfo, told: Mock) -> None:
    with Progress(told, processes(info), block_of(info)) as progress:
        for replicate in range(2):
            for cell in CELLS:
                progress.starts(0, Job(cell=cell, replicate=replicate))
                progress.took(record(cell, replicate, Status.TIMEOUT if cell is CELLS[1] and replicate else None))
    steps = [step.args for step in told.step.call_args_list]
    assert [step[:3] for step in steps] == [(f"time {method} N=64", done, 6) for done, method in enumerate("abab")]
    assert [left for *_, left in steps[:2]] == ["about 0 s left", "about 10 s left"]
    first, second = (block.args[0] for block in told.block.call_args_list)
    assert first.startswith("replicate 1/3 N=64 forward non-causal float32: 2 ok; ")
    assert second.startswith("replicate 2/3 N=64 forward non-causal float32: 1 ok, 1 timeout; ")
    assert told.say.call_args_list == [call("it was started anew")]
    told.stop.assert_called_once_with()


def test_the_time_that_is_left_counts_every_pass_of_a_process(info: RunInfo, told: Mock) -> None:
    """2 s of time and 2 s of memory, for two more processes of one cell and three of a cell that was not seen yet."""
    progress = Progress(told, processes(info), block_of(info))
    for phase in (Pass.CHECK, Pass.TIME, Pass.MEMORY):
        progress.took(record(CELLS[0], phase=phase))
    progress.starts(0, Job(cell=CELLS[1], replicate=0))
    assert told.step.call_args.args[3] == "about 20 s left"
