"""A place of one's own: the smallest there can be; schedules that are carried out in it, or in several at the same time.

What is lost, cut or crashes costs time, and no more.
"""

from collections import defaultdict, deque
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from types import SimpleNamespace
from typing import Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbench.analyze.cells import summarize
from attnbench.places.in_lanes import NoPlaceError, carry_out_in_lanes
from attnbench.places.place import carry_out
from attnbench.schedule.cells import CellJobs
from attnbench.schedule.ledger import Ledger
from attnbench.schedule.rounds import Rounds, bundles, rounds
from attnbench.schedule.steps import Schedule, Server, Step
from attnbench.schema.cell import Cell
from attnbench.schema.errand import Job, Pass
from attnbench.schema.errors import ArgumentError
from attnbench.schema.outcome import Failed, Measured, Outcome, Series, Status
from attnbench.schema.record import Record
from attnbench.session.lanes import portions
from attnbench.worker.portion import ALL
from tests.schedule.played import run_of, small

INFO = run_of({"name": "t", "axes": {"N": ["2^7..2^9"], "causal": [True]}, "methods": ("a", "b", "c"), "replicates": 3})
CHECKS: dict[str, tuple[Cell, ...]] = {cell.key: (small(cell),) for cell in INFO.cells}
BUNDLE = {cell.key: bundle.number for bundle in bundles(INFO.cells) for cell in bundle.cells}


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


def shared(records: list[Record], lanes: int) -> Rounds:
    jobs = CellJobs(INFO, Ledger.of(records), check_cells=CHECKS)
    return Rounds([jobs] * lanes, deque(bundles(INFO.cells)))


@settings(max_examples=40, deadline=None)
@given(
    lanes=st.integers(2, 4),
    fails=st.dictionaries(st.sampled_from("abc"), st.sampled_from([128, 256, 512]), max_size=2),
    crashes=st.frozensets(st.integers(1, 9), max_size=1),
    losses=st.lists(st.integers(1, 12), max_size=2),
    cuts=st.lists(st.integers(0, 12), max_size=3),
)
def test_however_many_lanes_there_are_and_whichever_are_lost_the_cells_end_as_in_one(
    lanes: int, fails: dict[str, int], crashes: frozenset[int], losses: list[int], cuts: list[int]
) -> None:
    # whoever has no room for a length has none for longer ones
    full = frozenset((method, N) for method, least in fails.items() for N in (128, 256, 512) if least <= N)
    records: list[Record] = []
    for most in [*cuts, 10**6]:
        # what ends a job comes before the first interruption, and twice at most: a third time the job is to blame
        ends, lost = (crashes, losses[: 2 - len(crashes)]) if not records else (frozenset[int](), [])
        # the first lane is never lost
        heads = [Head(most=most, fails=full, crashes=ends)]
        heads += [Head(most=most, fails=full, last=last) for last in [*lost, 10**6, 10**6, 10**6][: lanes - 1]]
        with suppress(KeyboardInterrupt):
            for _, record in carry_out_in_lanes(shared(records, lanes), heads):
                records.append(record)
    end_as_undisturbed(records, full)


def test_what_is_compared_is_measured_in_one_lane() -> None:
    places = defaultdict(set)
    for lane, record in carry_out_in_lanes(shared([], 3), [Head(), Head(), Head()]):
        if record.job.phase is not Pass.CHECK:
            places[BUNDLE[record.job.cell.key]].add(lane)
    assert len(places) == 3
    assert all(len(lanes) == 1 for lanes in places.values())
    assert len(set.union(*places.values())) > 1


def test_a_lane_that_is_lost_hands_on_all_its_bundles_and_the_job_in_hand_counts_as_a_try() -> None:
    records = [record for _, record in carry_out_in_lanes(shared([], 2), [Head(), Head(last=4)])]
    (lost,) = [r for r in records if isinstance(r.outcome, Failed)]
    again = [r for r in records if r.job.cell == lost.job.cell and r.job.phase is lost.job.phase]
    assert [(r.job.attempt, r.ok) for r in again if r.job.replicate == lost.job.replicate] == [(0, False), (1, True)]
    assert all(status == "ok" for status, _ in final(records).values())


def test_a_job_by_which_place_after_place_is_lost_becomes_a_row() -> None:
    heads = [Head(deadly=frozenset({("a", 256)})) for _ in range(4)]
    records = [record for _, record in carry_out_in_lanes(shared([], 4), heads)]
    ends = final(records)
    assert {(cell.method, cell.problem.N) for cell in INFO.cells if ends[cell.key][0] != "ok"} == {("a", 256)}
    assert sum(head.lost for head in heads) == 3


def test_where_no_place_is_left_the_run_says_so_and_keeps_what_it_has() -> None:
    made = carry_out_in_lanes(shared([], 2), [Head(last=3), Head(last=5)])
    records = [record for _, record in islice(made, 8)]
    with pytest.raises(NoPlaceError, match="no place is left to measure 3 of the run's bundles"):
        next(made)
    assert len(records) == 8
    alone = carry_out_in_lanes(shared([], 1), [Head(last=3)])
    assert len(list(islice(alone, 3))) == 3
    with pytest.raises(NoPlaceError, match="no place is left to measure the rest"):
        next(alone)
    records += [record for _, record in carry_out_in_lanes(shared(records, 1), [Head()])]
    assert all(status == "ok" for status, _ in final(records).values())


def test_an_error_in_a_lane_ends_the_others_too() -> None:
    class Broken(Head):
        def do(self, step: object) -> Record:
            raise OSError("no lock")

    with pytest.raises(OSError, match="no lock"):
        list(carry_out_in_lanes(shared([], 2), [Head(), Broken()]))


def test_lanes_of_unlike_devices_have_ledgers_of_their_own_and_take_nothing_from_each_other() -> None:
    jobs = [CellJobs(INFO, Ledger(), check_cells=CHECKS) for _ in range(2)]
    made, records = carry_out_in_lanes(Rounds(jobs, deque(bundles(INFO.cells))), [Head(), Head(last=1)]), list[Record]()
    with suppress(NoPlaceError):
        records.extend(record for _, record in made)
    assert {record.outcome.status for record in records if isinstance(record.outcome, Failed)} == {Status.CRASHED}


@pytest.mark.parametrize(("ledgers", "checks"), [(1, [1, 0]), (2, [1, 1])], ids=["like", "unlike"])
def test_like_devices_share_a_check_that_both_want_and_unlike_ones_make_their_own(ledgers: int, checks: list[int]) -> None:
    info = run_of({"name": "t", "axes": {"N": [128, 256]}, "methods": ("a",), "replicates": 1})
    jobs = [CellJobs(info, Ledger(), check_cells={cell.key: (small(cell),) for cell in info.cells}) for _ in range(ledgers)]
    heads = [Head(), Head()]
    list(carry_out_in_lanes(Rounds([jobs[0], jobs[-1]], deque(bundles(info.cells))), heads))
    assert [sum(job.phase is Pass.CHECK for job in head.jobs) for head in heads] == checks


def test_an_empty_word_names_no_devices_and_no_lane_is_refused() -> None:
    assert portions("") == portions(()) == portions(lanes=1) == (ALL,)
    with pytest.raises(ArgumentError, match="lanes=0: this process may use"):
        portions(lanes=0)


@pytest.mark.parametrize(
    ("shown", "asked", "found"),
    [
        (None, "all", ["0", "1", "2"]),
        ("2,GPU-7", "all", ["2", "GPU-7"]),
        ("2,GPU-7", "cuda:1", ["GPU-7"]),
        ("2,GPU-7", "cuda:2", "cuda:2: CUDA_VISIBLE_DEVICES shows only 2 of the GPUs"),
        ("", "all", "no GPU can be found, or CUDA_VISIBLE_DEVICES hides them"),
        ("", "cuda:0", "cuda:0: CUDA_VISIBLE_DEVICES shows only 0 of the GPUs"),
    ],
)
def test_devices_are_those_that_torch_may_see(
    monkeypatch: pytest.MonkeyPatch, shown: str | None, asked: str, found: list[str] | str
) -> None:
    nvml = SimpleNamespace(nvmlDeviceGetCount=lambda: 3, nvmlShutdown=int, NVMLError=OSError)
    monkeypatch.setattr("attnbench.measure.nvml.library", lambda: nvml)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if shown is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    if isinstance(found, list):
        assert [portion.gpu for portion in portions(asked)] == found
        return
    with pytest.raises(ArgumentError) as refused:
        portions(asked)
    assert refused.value.problem == found
