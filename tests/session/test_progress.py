"""How far a measurement is: what counts as done, what is said, and that nothing is said twice."""

from collections.abc import Callable

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
Info = Callable[..., RunInfo]


@pytest.fixture
def info(info_of: Info) -> RunInfo:
    return info_of(CELLS, {"replicates": 3})


class Told(Reporter):
    def __init__(self) -> None:
        self.said: list[str] = []
        self.blocks: list[str] = []
        self.steps: list[tuple[str, int, int, str]] = []
        self.stopped = False

    def say(self, text: str) -> None:
        self.said.append(text)

    def block(self, text: str) -> None:
        self.blocks.append(text)

    def step(self, doing: str, done: int, total: int, left: str = "") -> None:
        self.steps.append((doing, done, total, left))

    def stop(self) -> None:
        self.stopped = True


def record(cell: Cell, replicate: int, outcome: Measured | Failed | None = None, phase: Pass = Pass.TIME) -> Record:
    measured = Measured(samples={"time": Series(unit="s", values=(1.0,))}, facts={SERVER: "it was started anew"})
    job = Job(cell=cell, phase=phase, replicate=replicate)
    return Record(job=job, outcome=outcome or measured, environment="e", started="x", seconds=2.0)


def failed(status: Status) -> Failed:
    return Failed(status=status, reason="so it is")


@pytest.mark.parametrize(
    ("taken", "left"),
    [
        (record(CELLS[0], 0), 5),
        (record(CELLS[0], 0, failed(Status.ERROR)), 3),
        (record(CELLS[0], 0, failed(Status.INTERRUPTED)), 6),
        (record(CELLS[0], 0, phase=Pass.MEMORY), 6),
    ],
    ids=["a measured process is done", "a cell that fails is given up", "an interrupted one is not done", "nor is memory"],
)
def test_a_process_is_done_when_it_need_not_be_measured_any_more(taken: Record, left: int, info: RunInfo) -> None:
    assert len(Progress(Told(), processes(info), records=[taken]).left) == left


def test_where_a_cell_is_not_given_up_a_failure_is_one_process(info: RunInfo) -> None:
    progress = Progress(Told(), processes(info), records=[record(CELLS[0], 0, failed(Status.ERROR))], given_up=False)
    assert len(progress.left) == 5


def test_a_bar_and_blocks_say_how_far_it_is_and_a_remark_is_said_once(info: RunInfo) -> None:
    told = Told()
    with Progress(told, processes(info), block_of(info)) as progress:
        for replicate in range(2):
            for cell in CELLS:
                progress.starts(0, Job(cell=cell, replicate=replicate))
                progress.took(record(cell, replicate, failed(Status.TIMEOUT) if cell is CELLS[1] and replicate else None))
    assert [(doing, done, total) for doing, done, total, _ in told.steps] == [
        ("time a N=64", 0, 6),
        ("time b N=64", 1, 6),
        ("time a N=64", 2, 6),
        ("time b N=64", 3, 6),
    ]
    assert told.steps[0][3] == "about 0 s left"
    assert told.steps[1][3] == "about 10 s left"
    first, second = told.blocks
    assert first.startswith("replicate 1/3 N=64 forward non-causal float32: 2 ok; ")
    assert second.startswith("replicate 2/3 N=64 forward non-causal float32: 1 ok, 1 timeout; ")
    assert told.said == ["it was started anew"]
    assert told.stopped


def test_the_time_that_is_left_counts_every_pass_of_a_process(info: RunInfo) -> None:
    """2 s of time and 2 s of memory, for two more processes of one cell and three of a cell that was not seen yet."""
    told = Told()
    progress = Progress(told, processes(info), block_of(info))
    for phase in (Pass.CHECK, Pass.TIME, Pass.MEMORY):
        progress.took(record(CELLS[0], 0, phase=phase))
    progress.starts(0, Job(cell=CELLS[1], replicate=0))
    assert told.steps[0][3] == "about 20 s left"
