"""What a selfcheck starts, in which order, on which servers; workers are played by a fake."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pytest

from attnbench.places.local import Local
from attnbench.places.place import carry_out
from attnbench.schedule.cells import CellJobs
from attnbench.schedule.ledger import Ledger
from attnbench.schedule.verdicts import groups, in_turns, warmups_of
from attnbench.schema.cell import Cell
from attnbench.schema.errand import Answer, Errand, Job, Pass
from attnbench.schema.outcome import Failed, Measured, Outcome, Series, Status
from attnbench.schema.problem import Problem
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.schema.selfcheck import Place, Selfcheck
from tests.schedule.played import FakeWorker, run_of

CELL = Cell(method="m", problem=Problem(N=512))
SLOW = Cell(method="slow", problem=Problem(N=512))
SMALL = Cell(method="m", problem=Problem(N=64, H=2))
PLAN = Selfcheck(sides=(CELL, CELL), verdicts=23, replicates=3)


def measured(job: Job) -> Outcome:
    """The warm-up that is found depends on the process; one that is told how many takes so many."""
    found = job.warmup if job.warmup is not None else 100 + job.replicate
    return Measured(samples={"time": Series(unit="s", values=(1.0, 2.0))}, facts={"warmup_calls": found})


@dataclass
class Server(FakeWorker):
    """Works until it is closed."""

    closed: bool = False

    def __exit__(self, *_: object) -> None:
        self.closed = True

    def ask(self, errand: Errand, timeout: float) -> tuple[Answer, float]:
        assert not self.closed
        return super().ask(errand, timeout)


@dataclass
class Machine:
    """Starts servers."""

    answer: Callable[[Job], Outcome] = measured
    servers: list[Server] = field(default_factory=list)

    def __call__(self) -> Server:
        self.servers.append(Server(self.answer))
        return self.servers[-1]

    @property
    def jobs(self) -> list[Job]:
        return [job for server in self.servers for job in server.jobs]


def info(plan: Selfcheck = PLAN) -> RunInfo:
    suite = {"name": "selfcheck", "axes": {"N": [512]}, "methods": ["m"], "budget": {"seconds": 0.2}}
    return run_of({**suite, "replicates": plan.processes}, plan.sides[:1])


def run(
    machine: Machine, known: Iterable[Record] = (), plan: Selfcheck = PLAN, checks: dict[str, tuple[Cell, ...]] | None = None
) -> list[Record]:
    known = list(known)
    jobs = CellJobs(info(plan), Ledger.of(known), check_cells=checks or {})
    schedule = in_turns(jobs, plan, warmups_of(plan, known))
    return [record for _, record in carry_out(schedule, Local(info(plan), machine))]


def test_every_process_runs_once_round_after_round_the_sides_of_a_verdict_in_an_order_that_the_seed_decides() -> None:
    records = run(Machine())
    assert sorted(record.job.replicate for record in records) == list(range(PLAN.processes))
    found = [PLAN.place(record.job.replicate) for record in records]
    rounds = [place.replicate for place in found]
    assert rounds == sorted(rounds)
    pairs = list(zip(found[::2], found[1::2], strict=True))
    assert all((a.verdict, a.replicate) == (b.verdict, b.replicate) for a, b in pairs)
    firsts = Counter(a.side for a, _ in pairs)
    assert all(firsts[side] > len(pairs) / 4 for side in (0, 1))
    assert [record.job for record in run(Machine())] == [record.job for record in records]


def test_the_verdicts_of_each_round_come_in_another_order() -> None:
    orders = {tuple(number // 6 for group in groups(PLAN, replicate, 0) for number in group) for replicate in range(3)}
    assert len(orders) == 3


def test_each_side_has_servers_of_its_own_and_no_server_serves_many_verdicts() -> None:
    machine = Machine()
    run(machine)
    assert len(machine.servers) == 2 * 3 * PLAN.replicates
    for server in machine.servers:
        served = [PLAN.place(job.replicate) for job in server.jobs]
        assert len({(place.side, place.replicate) for place in served}) == 1
        assert len({place.verdict for place in served}) == len(served) <= 10
        assert server.closed


def test_a_side_of_a_verdict_keeps_the_warm_up_of_its_own_first_process_and_a_pair_draws_inputs_of_its_own() -> None:
    machine = Machine()
    run(machine)
    seeds: dict[int, set[int]] = {}
    for job in machine.jobs:
        place = PLAN.place(job.replicate)
        first = PLAN.number(Place(place.verdict, place.side, 0))
        assert job.warmup == (None if place.replicate == 0 else 100 + first)
        assert job.limits.first_call == (0.1 if place.replicate == 0 else None)
        seeds.setdefault(PLAN.pair(job.replicate), set()).add(job.seed)
    assert all(len(drawn) == 1 for drawn in seeds.values())
    assert len(set.union(*seeds.values())) == 23 * 3


def test_the_check_is_made_once_and_first_and_memory_is_never_measured() -> None:
    records = run(Machine(), checks={CELL.key: (SMALL,)})
    assert records[0].job.phase is Pass.CHECK
    assert Counter(record.job.phase for record in records) == {Pass.CHECK: 1, Pass.TIME: PLAN.processes}


@pytest.mark.parametrize("stop", [1, 30, 46, 47, 100, 137])
def test_what_was_interrupted_goes_on_with_the_rest_and_the_same_warm_ups(stop: int) -> None:
    whole = run(Machine())
    rest = run(Machine(), whole[:stop])
    assert [record.job for record in whole[:stop]] + [record.job for record in rest] == [record.job for record in whole]


def test_a_record_of_an_interruption_is_as_good_as_none() -> None:
    whole = run(Machine())
    cut = whole[-1].model_copy(update={"outcome": Failed(status=Status.INTERRUPTED, reason="it was")})
    assert [record.job for record in run(Machine(), [*whole[:-1], cut])] == [whole[-1].job]


def failing(numbers: Iterable[int]) -> Machine:
    bad, no = set(numbers), Failed(status=Status.TIMEOUT, reason="no answer")
    return Machine(lambda job: no if job.replicate in bad else measured(job))


def test_a_process_that_fails_costs_no_other_and_changes_no_condition() -> None:
    machine = failing([10, 11, 70])
    records = run(machine)
    assert sorted(record.job.replicate for record in records if not record.ok) == [10, 11, 70]
    assert len(records) == PLAN.processes
    assert all(job.limits.first_call is None for job in machine.jobs if PLAN.place(job.replicate).replicate > 0)


def test_a_method_that_cannot_be_measured_at_all_is_tried_once_and_one_that_fails_ten_times_in_a_row_no_more() -> None:
    (record,) = run(failing(range(PLAN.processes)))
    assert not record.ok
    order = [number for replicate in range(3) for group in groups(PLAN, replicate, 0) for number in group]
    records = run(failing([*order[4:13], *order[20:]]))
    assert [record.job.replicate for record in records] == order[:30]


def test_a_method_that_fails_its_check_is_not_timed() -> None:
    def answer(job: Job) -> Outcome:
        return Failed(status=Status.INCORRECT, reason="wrong") if job.phase is Pass.CHECK else measured(job)

    check, timed = run(Machine(answer), checks={CELL.key: (SMALL,)})
    assert (check.job.phase, timed.job.phase) == (Pass.CHECK, Pass.TIME)
    assert timed.outcome == Failed(status=Status.INCORRECT, reason="its check: wrong")


def test_a_slow_down_made_on_purpose_is_another_cell_on_side_b() -> None:
    plan = Selfcheck(sides=(CELL, SLOW), verdicts=2, replicates=2, injected=0.1)
    records = run(Machine(), plan=plan)
    sides = {(plan.place(record.job.replicate).side, record.job.cell.method) for record in records}
    assert sides == {(0, "m"), (1, "slow")}
    assert sorted(record.job.replicate for record in records) == list(range(8))
