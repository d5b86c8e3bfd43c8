"""In which order two sides are measured, in turns and for the verdicts of a selfcheck; their workers are played."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbench.places.local import Local
from attnbench.places.place import carry_out
from attnbench.schedule.cells import CellJobs
from attnbench.schedule.ledger import Ledger
from attnbench.schedule.rounds import turns
from attnbench.schedule.verdicts import groups, in_turns, warmups_of
from attnbench.schema.cell import Cell
from attnbench.schema.errand import Job, Pass
from attnbench.schema.outcome import Failed, Measured, Outcome, Series, Status
from attnbench.schema.problem import Problem
from attnbench.schema.record import Record
from attnbench.schema.selfcheck import Place, Selfcheck
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
    found, log = sides.run(range(3)), sides.log
    assert len(log) == 2 * 3 * len(KEYS)
    assert all(a[1:] == b[1:] and {a[0], b[0]} == {0, 1} for a, b in zip(log[::2], log[1::2], strict=True))
    lengths = {cell.key: cell.problem.N for cell in INFO.cells}
    order = [(replicate, lengths[key]) for _, key, replicate in log]
    assert order == sorted(order)
    assert [worker.servers for worker in sides.workers] == [3, 3]
    # a record comes with the side that it belongs to
    jobs = [(side, record.job) for side, record in found]
    assert [(side, job.cell.key, job.replicate) for side, job in jobs if job.phase is Pass.TIME] == log


def test_neither_side_is_always_the_first_and_only_what_is_still_wanted_goes_on() -> None:
    sides = Sides()
    sides.run(range(20))
    first = Counter(side for side, *_ in sides.log[::2])
    assert min(first[0], first[1]) > 20
    sides.log.clear()
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
    assert isinstance(cut.outcome, Failed)
    assert (cut.job.replicate, cut.outcome.status) == (0, Status.INTERRUPTED)


CELL = Cell(method="m", problem=Problem(N=512))
SLOW = CELL.model_copy(update={"method": "slow"})
PLAN = Selfcheck(sides=(CELL, CELL), verdicts=23, replicates=3)
Checks = dict[str, tuple[Cell, ...]]
CHECKS: Checks = {CELL.key: (Cell(method="m", problem=Problem(N=64, H=2)),)}


@settings(deadline=None)
@given(st.integers(1, 30), st.integers(2, 12))
def test_every_number_is_one_process_and_the_sides_of_a_pair_share_one_of_their_own(verdicts: int, replicates: int) -> None:
    planned = Selfcheck(sides=(CELL, SLOW), verdicts=verdicts, replicates=replicates)
    places = [planned.place(number) for number in range(planned.processes)]
    assert [planned.number(place) for place in places] == list(range(planned.processes))
    assert set(places) == {Place(v, side, r) for v in range(verdicts) for side in (0, 1) for r in range(replicates)}
    pairs = {(place.verdict, place.replicate): planned.pair(planned.number(place)) for place in places if place.side == 0}
    assert len(set(pairs.values())) == verdicts * replicates
    assert all(planned.pair(planned.number(place)) == pairs[place.verdict, place.replicate] for place in places)
    assert [planned.cell(planned.number(place)) for place in places] == [(CELL, SLOW)[place.side] for place in places]
    # numbers of more verdicts begin with those of fewer
    more = planned.model_copy(update={"verdicts": verdicts + 6})
    assert [more.place(number) for number in range(planned.processes)] == places


def warmed(job: Job) -> Outcome:
    """The warm-up that is found depends on the process; one that is told how many takes so many."""
    found = job.warmup if job.warmup is not None else 100 + job.replicate
    return Measured(samples={"time": Series(unit="s", values=(1.0, 2.0))}, facts={"warmup_calls": found})


@dataclass
class Machine:
    """Starts servers for a selfcheck."""

    answer: Callable[[Job], Outcome] = warmed
    servers: list[FakeWorker] = field(default_factory=list)

    def __call__(self) -> FakeWorker:
        self.servers.append(FakeWorker(self.answer))
        return self.servers[-1]

    @property
    def jobs(self) -> list[Job]:
        return [job for server in self.servers for job in server.jobs]

    def run(self, known: Sequence[Record] = (), checks: Checks | None = None) -> list[Record]:
        suite = {"name": "s", "axes": {"N": [512]}, "methods": ["m"], "budget": {"seconds": 0.2}, "replicates": PLAN.processes}
        info = run_of(suite, PLAN.sides[:1])
        schedule = in_turns(CellJobs(info, Ledger.of(known), check_cells=checks or {}), PLAN, warmups_of(PLAN, known))
        return [record for _, record in carry_out(schedule, Local(info, self))]


def test_every_process_runs_once_round_after_round_the_sides_of_a_verdict_in_an_order_that_the_seed_decides() -> None:
    records = Machine().run()
    assert sorted(record.job.replicate for record in records) == list(range(PLAN.processes))
    found = [PLAN.place(record.job.replicate) for record in records]
    rounds = [place.replicate for place in found]
    assert rounds == sorted(rounds)
    pairs = list(zip(found[::2], found[1::2], strict=True))
    assert all((a.verdict, a.replicate) == (b.verdict, b.replicate) for a, b in pairs)
    firsts = Counter(a.side for a, _ in pairs)
    assert all(firsts[side] > len(pairs) / 4 for side in (0, 1))
    assert [record.job for record in Machine().run()] == [record.job for record in records]
    orders = {tuple(place.verdict for place in found if place.replicate == replicate) for replicate in range(3)}
    assert len(orders) == 3, "the verdicts of each round come in another order"


def test_each_side_has_servers_of_its_own_and_no_server_serves_many_verdicts() -> None:
    machine = Machine()
    machine.run()
    assert len(machine.servers) == 2 * 3 * PLAN.replicates
    for server in machine.servers:
        served = [PLAN.place(job.replicate) for job in server.jobs]
        assert len({(place.side, place.replicate) for place in served}) == 1
        assert len({place.verdict for place in served}) == len(served) <= 10


def test_a_side_of_a_verdict_keeps_the_warm_up_of_its_own_first_process_and_a_pair_draws_inputs_of_its_own() -> None:
    machine = Machine()
    machine.run()
    seeds: dict[int, set[int]] = {}
    for job in machine.jobs:
        place = PLAN.place(job.replicate)
        assert job.warmup == (None if place.replicate == 0 else 100 + PLAN.number(Place(place.verdict, place.side, 0)))
        assert job.limits.first_call == (0.1 if place.replicate == 0 else None)
        seeds.setdefault(PLAN.pair(job.replicate), set()).add(job.seed)
    assert all(len(drawn) == 1 for drawn in seeds.values())
    assert len(set.union(*seeds.values())) == 23 * 3


def test_the_check_is_made_once_and_first_and_a_method_that_fails_it_is_not_timed() -> None:
    records = Machine().run(checks=CHECKS)
    assert records[0].job.phase is Pass.CHECK
    # and memory is never measured
    assert Counter(record.job.phase for record in records) == {Pass.CHECK: 1, Pass.TIME: PLAN.processes}
    wrong = Failed(status=Status.INCORRECT, reason="wrong")
    check, timed = Machine(lambda job: wrong if job.phase is Pass.CHECK else warmed(job)).run(checks=CHECKS)
    assert (check.job.phase, timed.job.phase) == (Pass.CHECK, Pass.TIME)
    assert timed.outcome == Failed(status=Status.INCORRECT, reason="its check: wrong")


@pytest.mark.parametrize("stop", [1, 30, 46, 47, 100, 137])
def test_what_was_interrupted_goes_on_with_the_rest_and_the_same_warm_ups(stop: int) -> None:
    whole = Machine().run()
    cut = whole[stop].model_copy(update={"outcome": Failed(status=Status.INTERRUPTED, reason="it was")})
    rest = Machine().run([*whole[:stop], cut])
    assert [record.job for record in whole[:stop]] + [record.job for record in rest] == [record.job for record in whole]


def failing(numbers: Iterable[int]) -> Machine:
    bad, no = set(numbers), Failed(status=Status.TIMEOUT, reason="no answer")
    return Machine(lambda job: no if job.replicate in bad else warmed(job))


def test_a_process_that_fails_costs_no_other_and_changes_no_condition() -> None:
    machine = failing([10, 11, 70])
    records = machine.run()
    assert sorted(record.job.replicate for record in records if not record.ok) == [10, 11, 70]
    assert len(records) == PLAN.processes
    assert all(job.limits.first_call is None for job in machine.jobs if PLAN.place(job.replicate).replicate > 0)


def test_a_method_that_cannot_be_measured_at_all_is_tried_once_and_one_that_fails_ten_times_in_a_row_no_more() -> None:
    (record,) = failing(range(PLAN.processes)).run()
    assert not record.ok
    order = [number for replicate in range(3) for group in groups(PLAN, replicate, 0) for number in group]
    assert [record.job.replicate for record in failing([*order[4:13], *order[20:]]).run()] == order[:30]
