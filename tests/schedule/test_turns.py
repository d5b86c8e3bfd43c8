"""In which order two sides are measured; their workers are played."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import pytest

from attnbench.places.local import Local
from attnbench.places.place import carry_out
from attnbench.schedule.cells import CellJobs
from attnbench.schedule.ledger import Ledger
from attnbench.schedule.rounds import turns
from attnbench.schema.errand import Job, Pass
from attnbench.schema.outcome import Outcome
from attnbench.schema.record import Record
from tests.schedule.played import FakeWorker, measured, run_of

INFO = run_of({"name": "t", "axes": {"N": [64, 128]}, "methods": ["a", "b"]})
KEYS = [cell.key for cell in INFO.cells]
Log = list[tuple[int, str, int]]


@dataclass
class Both:
    """Two sides of the same cells, each in a place of its own."""

    places: tuple[Local, Local]

    def run(self, replicates: range, wanted: list[str]) -> Iterator[tuple[int, Record]]:
        jobs = CellJobs(INFO, Ledger()), CellJobs(INFO, Ledger())
        yield from carry_out(turns(jobs, replicates, wanted), *self.places)

    def interrupted(self) -> list[tuple[int, Record]]:
        return [(i, record) for i, place in enumerate(self.places) if (record := place.interrupted()) is not None]


def sides() -> tuple[Log, tuple[FakeWorker, FakeWorker], Both]:
    """Both workers write each timing into one log: the side, the cell and the replicate."""
    log: Log = []

    def worker(side: int) -> FakeWorker:
        def answer(job: Job) -> Outcome:
            if job.phase is Pass.TIME:
                log.append((side, job.cell.key, job.replicate))
            return measured(job)

        return FakeWorker(answer)

    old, new = worker(0), worker(1)
    return log, (old, new), Both((Local(INFO, old), Local(INFO, new)))


def test_each_cell_is_measured_on_one_side_right_after_the_other_each_round_by_servers_of_its_own() -> None:
    log, (old, new), both = sides()
    list(both.run(range(3), KEYS))
    assert len(log) == 2 * 3 * len(KEYS)
    assert all(a[1:] == b[1:] and {a[0], b[0]} == {0, 1} for a, b in zip(log[::2], log[1::2], strict=True))
    assert (old.servers, new.servers) == (3, 3)


def test_neither_side_is_always_the_first() -> None:
    log, _, both = sides()
    list(both.run(range(20), KEYS))
    first = Counter(side for side, *_ in log[::2])
    assert min(first[0], first[1]) > 20


def test_a_record_comes_with_the_side_that_it_belongs_to() -> None:
    log, _, both = sides()
    jobs = [(side, record.job) for side, record in both.run(range(2), KEYS)]
    assert [(side, job.cell.key, job.replicate) for side, job in jobs if job.phase is Pass.TIME] == log


def test_only_what_is_still_wanted_goes_on() -> None:
    log, _, both = sides()
    list(both.run(range(5, 7), KEYS[:1]))
    assert {(key, replicate) for _, key, replicate in log} == {(KEYS[0], 5), (KEYS[0], 6)}


def test_lengths_rise_within_a_replicate() -> None:
    log, _, both = sides()
    list(both.run(range(1), KEYS))
    lengths = {cell.key: cell.problem.N for cell in INFO.cells}
    assert all(lengths[a] <= lengths[b] for (_, a, _), (_, b, _) in pairwise(log))


def test_what_was_in_flight_is_told_for_its_side() -> None:
    _, (_, new), both = sides()

    def interrupt(job: Job) -> Outcome:
        raise KeyboardInterrupt

    new.answer = interrupt
    with pytest.raises(KeyboardInterrupt):
        list(both.run(range(1), KEYS))
    ((side, record),) = both.interrupted()
    assert (side, record.job.replicate, record.ok) == (1, 0, False)
