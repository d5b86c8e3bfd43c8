"""A place of one's own: the smallest there can be, and schedules that are carried out in it."""

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

from hypothesis import given, settings
from hypothesis import strategies as st

from attnbench.analyze.cells import summarize
from attnbench.places.place import carry_out
from attnbench.schedule.cells import CellJobs
from attnbench.schedule.ledger import Ledger
from attnbench.schedule.rounds import rounds
from attnbench.schedule.steps import Schedule, Server, Step
from attnbench.schema.cell import Cell
from attnbench.schema.errand import Job, Pass
from attnbench.schema.outcome import Failed, Measured, Outcome, Series, Status
from attnbench.schema.record import Record
from tests.schedule.played import run_of, small

INFO = run_of({"name": "t", "axes": {"N": ["2^7..2^9"], "causal": [True]}, "methods": ("a", "b", "c"), "replicates": 3})
CHECKS: dict[str, tuple[Cell, ...]] = {cell.key: (small(cell),) for cell in INFO.cells}


@dataclass
class Head:
    """A place that makes up its answers; it is full after so many jobs, as a machine that is switched off."""

    jobs: list[Job] = field(default_factory=list)
    most: int = 10**6
    fails: frozenset[tuple[str, int]] = frozenset()
    """Methods and lengths that run out of memory."""
    crashes: frozenset[int] = frozenset()
    """The jobs, counted from the first, whose process dies."""
    last: int = 10**6
    """The job, counted from the first, by which the place is lost."""
    deadly: frozenset[tuple[str, int]] = frozenset()
    """Methods and lengths by which it is lost too."""
    lost: bool = False
    device: str = "head"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def do(self, step: Step) -> Record:
        if step.settled is not None:
            return Record(job=step.job, outcome=step.settled, environment="e", started="2026-01-01T00:00:00+00:00")
        if len(self.jobs) == self.most:
            raise KeyboardInterrupt
        self.jobs.append(step.job)
        outcome: Outcome = Measured(samples={"time": Series(unit="s", values=(1.0,))}, facts={"warmup_calls": 3})
        cell = step.job.cell
        if (cell.method, cell.problem.N) in self.fails:
            outcome = Failed(status=Status.OOM_HOST, reason="full")
        if len(self.jobs) == self.last or ((cell.method, cell.problem.N) in self.deadly and step.job.phase is Pass.TIME):
            self.lost = True
        if len(self.jobs) in self.crashes or self.lost:
            outcome = Failed(status=Status.CRASHED, reason="SIGKILL")
        return Record(job=step.job, outcome=outcome, environment="e", started="2026-01-01T00:00:00+00:00", seconds=1.0)

    def cut(self) -> None: ...

    def interrupted(self) -> Record | None:
        return None


def from_the_longest(jobs: CellJobs) -> Schedule:
    for cell in sorted(jobs.run_info.cells, key=lambda cell: -cell.problem.N):
        yield from jobs.replicate(cell, 0, Server((0,)))


def test_a_schedule_of_one_s_own_is_carried_out_in_a_place_of_one_s_own() -> None:
    head = Head()
    records = [record for _, record in carry_out(from_the_longest(CellJobs(INFO, Ledger())), head)]
    timed = [job.cell.problem.N for job in head.jobs if job.phase is Pass.TIME]
    assert timed == sorted(timed, reverse=True)
    assert [record.job for record in records] == head.jobs


def final(records: list[Record]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """What becomes of each cell: its status and its replicates."""
    return {cell.cell.key: (cell.status, tuple(cell.medians)) for cell in summarize(INFO.cells, records)}


def end_as_undisturbed(records: list[Record], fails: frozenset[tuple[str, int]]) -> None:
    """Cells become what they do in one go in one place, and no job was done twice."""
    whole = [record for _, record in carry_out(rounds(CellJobs(INFO, Ledger(), check_cells=CHECKS)), Head(fails=fails))]
    done = [(r.job.cell.key, r.job.phase, r.job.replicate, r.job.attempt) for r in records]
    assert final(records) == final(whole)
    assert len(done) == len(set(done))


@settings(max_examples=60, deadline=None)
@given(
    fails=st.frozensets(st.tuples(st.sampled_from("abc"), st.sampled_from([128, 256, 512])), max_size=3),
    cuts=st.lists(st.integers(0, 12), max_size=12),
    crashes=st.frozensets(st.integers(1, 12), max_size=1),
)
def test_wherever_a_run_is_cut_and_whatever_crashes_once_its_cells_end_alike_and_no_job_is_done_twice(
    fails: frozenset[tuple[str, int]], cuts: list[int], crashes: frozenset[int]
) -> None:
    records: list[Record] = []
    for most in [*cuts, 10**6]:
        jobs = CellJobs(INFO, Ledger.of(records), check_cells=CHECKS)
        # a process that dies by chance is tried again
        head = Head(most=most, fails=fails, crashes=crashes if not records else frozenset())
        with suppress(KeyboardInterrupt):
            for _, record in carry_out(rounds(jobs), head):
                records.append(record)
    end_as_undisturbed(records, fails)
