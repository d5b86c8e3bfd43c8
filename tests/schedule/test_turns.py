"""In which order two sides are measured; their workers are played."""

from collections import Counter
from dataclasses import dataclass, field

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


@dataclass
class Sides:
    """Two sides of the same cells, each in a place of its own; both write each timing into one log: side, cell, replicate."""

    log: list[tuple[int, str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.workers = self.worker(0), self.worker(1)
        self.places = Local(INFO, self.workers[0]), Local(INFO, self.workers[1])

    def worker(self, side: int) -> FakeWorker:
        def answer(job: Job) -> Outcome:
            if job.phase is Pass.TIME:
                self.log.append((side, job.cell.key, job.replicate))
            return measured(job)

        return FakeWorker(answer)

    def run(self, replicates: range, wanted: list[str] = KEYS) -> list[tuple[int, Record]]:
        jobs = CellJobs(INFO, Ledger()), CellJobs(INFO, Ledger())
        return list(carry_out(turns(jobs, replicates, wanted), *self.places))


def test_each_cell_is_measured_on_one_side_right_after_the_other_from_short_to_long_by_servers_of_a_round() -> None:
    sides = Sides()
    found = sides.run(range(3))
    log = sides.log
    assert len(log) == 2 * 3 * len(KEYS)
    assert all(a[1:] == b[1:] and {a[0], b[0]} == {0, 1} for a, b in zip(log[::2], log[1::2], strict=True))
    lengths = {cell.key: cell.problem.N for cell in INFO.cells}
    order = [(replicate, lengths[key]) for _, key, replicate in log]
    assert order == sorted(order)
    assert [worker.servers for worker in sides.workers] == [3, 3]
    # a record comes with the side that it belongs to
    jobs = [(side, record.job) for side, record in found]
    assert [(side, job.cell.key, job.replicate) for side, job in jobs if job.phase is Pass.TIME] == log


def test_neither_side_is_always_the_first() -> None:
    sides = Sides()
    sides.run(range(20))
    first = Counter(side for side, *_ in sides.log[::2])
    assert min(first[0], first[1]) > 20


def test_only_what_is_still_wanted_goes_on() -> None:
    sides = Sides()
    sides.run(range(5, 7), KEYS[:1])
    assert {(key, replicate) for _, key, replicate in sides.log} == {(KEYS[0], 5), (KEYS[0], 6)}


def test_what_was_in_flight_is_told_for_its_side() -> None:
    sides = Sides()

    def interrupt(job: Job) -> Outcome:
        raise KeyboardInterrupt

    sides.workers[1].answer = interrupt
    with pytest.raises(KeyboardInterrupt):
        sides.run(range(1))
    finished, cut = (place.interrupted() for place in sides.places)
    assert finished is None
    assert cut is not None
    assert (cut.job.replicate, cut.ok) == (0, False)
