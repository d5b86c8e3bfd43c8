"""A run that grows: which lengths are added, to which sections, and when the search is over."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from attnbench.analyze.cells import summarize
from attnbench.analyze.crossover import Crossing, Versus, crossover
from attnbench.analyze.quantities import recorded
from attnbench.analyze.sections import sections
from attnbench.schedule.bisection import Goal, grown, next_length, of_lengths, side_by_side, wanted
from attnbench.schedule.cells import CellJobs
from attnbench.schedule.ledger import Ledger
from attnbench.schedule.rounds import rounds
from attnbench.schema.cell import Cell
from attnbench.schema.cost import Cost
from attnbench.schema.errand import Answer, Description, Errand, Inquiry, Job, Pass, Prospect, Survey
from attnbench.schema.outcome import Counter as MemoryCounter
from attnbench.schema.outcome import Failed, Measured, Series, Status
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.session.scout import scout
from tests.schedule.played import HERE, FakeWorker, records_of, run_of

COST = Cost(nominal_flops=1, exact_flops=1, executed_flops=1, traffic_bytes=1)
GOAL = Goal("linear", "softmax")


def seconds(cell: Cell) -> float:
    """Causal, the quadratic one is overtaken at 1,300; not causal, at 6,000."""
    N = cell.problem.N
    return 1e-6 * N if cell.method == "linear" else 1e-6 * N * N / (1300 if cell.problem.causal else 6000)


@dataclass
class Machine(FakeWorker):
    """Methods take on it what a law says, each process off by a little of its own."""

    law: Callable[[Cell], float] = seconds
    noise: float = 0.01
    refuses: Callable[[Cell], str | None] = lambda _: None
    asked: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.answer = self.measured

    def ask(self, errand: Errand, timeout: float) -> tuple[Answer, float]:
        if isinstance(errand, Survey):
            return HERE, 0.1
        return (self.describe(errand), 0.1) if isinstance(errand, Inquiry) else super().ask(errand, timeout)

    def describe(self, inquiry: Inquiry) -> Description:
        self.asked += [cell.problem.N for cell in inquiry.cells]
        found = tuple(Prospect(why_not=self.refuses(cell), cost=COST) for cell in inquiry.cells)
        about: Any = {"paper": "p", "tier": "eager", "causality": "full", "summary": "s", "version": "0"}
        return Description(method=inquiry.method, prospects=found, **about)

    def measured(self, job: Job) -> Measured:
        counters = {"host_rss_peak": MemoryCounter(bytes=round(1e9 * self.law(job.cell)), source="VmHWM")}
        if job.phase is Pass.MEMORY:
            return Measured(memory=counters)
        off = 1 + self.noise * ((job.replicate * 7 + job.cell.problem.N // 64 + len(job.cell.method)) % 5 - 2)
        return Measured(samples={"time": Series(unit="s", values=(self.law(job.cell) * off,))})


@dataclass
class Searched:
    """What came of a search."""

    run: RunInfo
    records: list[Record]
    added: list[dict[str, int]]

    def crossing(self, metric: str = "time") -> Crossing:
        """The only one of the only section."""
        summaries = summarize(self.run.cells, self.records)
        (section,) = sections(summaries, self.run.suite.axes)
        (found,) = Versus(section, "linear", "softmax", recorded(summaries, self.run)[metric]).crossover.crossings
        return found


def search(worker: Machine, goal: Goal = GOAL, **suite: Any) -> Searched:
    axes = {"N": ("2^8..2^14",), "causal": (True,), **suite.pop("axes", {})}
    info = run_of({"name": "t", "axes": axes, "methods": ("softmax", "linear"), "replicates": 5, **suite})
    jobs = CellJobs(info.model_copy(update={"costs": {cell.key: COST for cell in info.cells}}), Ledger())
    records, added, steps = list[Record](), Counter[str](), list[dict[str, int]]()
    while True:
        records += records_of(rounds(jobs), jobs.run_info, worker)
        if not (lengths := wanted(jobs.run_info, goal, records, added)):
            return Searched(jobs.run_info, records, steps)
        scouted = scout(of_lengths(jobs.run_info.suite, lengths.values()), worker, roof=False)
        jobs = scouted.added_to(jobs, grown(jobs.run_info, goal, lengths, scouted.cells))
        added.update(lengths.keys())
        steps.append(dict(lengths))


def test_a_length_is_added_inside_the_bracket_and_the_search_ends_near_the_truth_in_a_run_that_names_it() -> None:
    found = search(Machine())
    assert found.added == [{"forward, causal, float32": 1408}]
    assert found.crossing().length == pytest.approx(1300, rel=0.02)
    assert found.crossing().reach <= 1.1
    assert {256, 1408} <= set(found.run.suite.axes.N) == {cell.problem.N for cell in found.run.cells}
    assert list(found.run.suite.axes.N) == sorted(found.run.suite.axes.N)
    assert {cell.key for cell in found.run.cells if cell.problem.N == 1408} <= found.run.costs.keys()
    assert RunInfo.model_validate_json(found.run.model_dump_json()) == found.run


def test_added_lengths_are_measured_side_by_side_in_each_round_like_all_others_and_nothing_twice() -> None:
    worker = Machine()
    found = search(worker)
    times = Counter((job.cell.key, job.replicate) for job in worker.timed())
    assert times == {(cell.key, replicate): 1 for cell in found.run.cells for replicate in range(5)}
    added = [job for job in worker.timed() if job.cell.problem.N == 1408]
    assert [job.replicate for job in added] == [replicate for replicate in range(5) for _ in "ab"]
    assert all({a.cell.method, b.cell.method} == {"linear", "softmax"} for a, b in zip(added[::2], added[1::2], strict=True))
    # from its own records a search wants the same
    jobs = CellJobs(found.run, Ledger.of(found.records))
    assert records_of(rounds(jobs), found.run, Machine()) == []
    assert wanted(found.run, GOAL, found.records, {}) == {}


def test_every_section_gets_the_lengths_that_it_wants_and_no_others() -> None:
    found = search(Machine(), axes={"causal": (True, False)})
    assert found.added == [{"forward, causal, float32": 1408, "forward, non-causal, float32": 5632}]
    added = {(cell.problem.causal, cell.problem.N) for cell in found.run.cells if cell.problem.N in {1408, 5632}}
    assert added == {(True, 1408), (False, 5632)}


def test_a_section_gets_its_length_though_others_that_have_one_of_the_two_are_left_out() -> None:
    axes = {"N": ("2^8..2^14",), "causal": (True,), "D": (32, 64)}
    methods = ("softmax", {"name": "linear", "when": "D == 64"})
    whole = run_of({"name": "t", "axes": axes, "methods": methods, "replicates": 5})
    run = whole.model_copy(update={"cells": side_by_side(whole.cells, whole.suite.axes, frozenset({"linear", "softmax"}))})
    longer = run_of(of_lengths(whole.suite, (1408,)).model_dump(mode="json")).cells
    found = grown(run, GOAL, {"forward, causal, float32": 1408}, longer)
    assert {(cell.method, cell.problem.D) for cell in found} == {("linear", 64), ("softmax", 64)}


def test_a_finer_resolution_takes_more_lengths_up_to_the_most() -> None:
    goals = [replace(GOAL, resolution=0.01), replace(GOAL, resolution=0.01, most=2), replace(GOAL, most=0)]
    fine, few, none = (search(Machine(noise=0.0), goal, replicates=1).added for goal in goals)
    assert len(fine) > 4
    assert (fine[:2], none) == (few, [])


def test_noise_ends_the_search_where_lengths_are_as_near_as_was_asked() -> None:
    near = Machine(law=lambda c: 1e-6 * c.problem.N * (1 if c.method == "linear" else (c.problem.N / 1300) ** 0.5), noise=0.1)
    found = search(near)
    assert 1 <= len(found.added) < 6
    assert found.crossing().reach > 1.1


def test_where_nobody_is_overtaken_or_nothing_is_known_of_a_metric_nothing_is_added_and_nobody_asked() -> None:
    slower = Machine(law=lambda cell: 1e-6 * cell.problem.N * (2 if cell.method == "linear" else 1))
    without_states = Machine()
    assert search(slower).added == search(without_states, Goal("linear", "softmax", "state")).added == []
    assert slower.asked == without_states.asked == []


@pytest.mark.parametrize("metric", ["memory", "flops"])
def test_a_crossing_by_memory_or_by_work_in_a_time_is_closed_in_on_as_well(metric: str) -> None:
    found = search(Machine(noise=0.0), Goal("linear", "softmax", metric), replicates=1).crossing(metric)
    assert found.reach <= 1.1
    assert found.length == pytest.approx(1300, rel=0.01)


def test_a_length_that_a_method_refuses_is_a_row_and_the_search_goes_on_beside_it() -> None:
    worker = Machine(refuses=lambda cell: "multiples of 256 only" if cell.problem.N % 256 else None)
    found = search(worker, replicates=1)
    refused = {(r.job.cell.problem.N, r.outcome.status) for r in found.records if isinstance(r.outcome, Failed)}
    assert refused == {(N, Status.UNSUPPORTED) for step in found.added for N in step.values() if N % 256}
    assert not [job for job in worker.jobs if job.cell.problem.N % 256]
    assert len(found.added) <= 6


def test_the_batch_follows_from_the_length_as_the_suite_says() -> None:
    found = search(Machine(), axes={"tokens": 16384})
    assert {(c.problem.N, c.problem.B) for c in found.run.cells if c.problem.N == 1408} == {(1408, 11)}


@example(truth=1024.0, replicates=1, resolution=0.1)
@given(st.floats(600, 60_000), st.sampled_from([1, 5]), st.sampled_from([0.03, 0.1, 0.3]))
def test_without_noise_every_crossing_is_found_in_few_steps(truth: float, replicates: int, resolution: float) -> None:
    tried: list[int] = [2**i for i in range(9, 17)]
    for _ in range(14):
        found = exact(tried, truth, replicates)
        if (N := next_length(found, sorted(tried), resolution)) is None:
            break
        assert N not in tried
        assert found.crossings[0].bracket[0] < N < found.crossings[0].bracket[1]
        tried.append(N)
    else:
        pytest.fail(f"not settled with {tried}")
    (crossing,) = exact(tried, truth, replicates).crossings
    assert crossing.reach <= 1 + resolution
    assert crossing.length == pytest.approx(truth, rel=1e-3)


def exact(lengths: Sequence[int], truth: float, replicates: int) -> Any:
    numbers = range(replicates)
    of = {N: dict.fromkeys(numbers, float(N)) for N in lengths}
    return crossover(of, {N: dict.fromkeys(numbers, N * N / truth) for N in lengths})


def test_added_lengths_are_multiples_of_large_powers_of_two() -> None:
    assert next_length(exact([2048, 4096], 3000, 1), [2048, 4096], 0.1) == 2816
    assert next_length(exact([512, 513], 512.5, 1), [512, 513], 1e-9) is None


def test_between_lengths_that_cannot_be_told_apart_the_gap_around_the_crossing_is_halved() -> None:
    found = exact([1024, 2048, 4096, 8192], 5000, 5)
    untold = replace(found, crossings=(replace(found.crossings[0], bracket=(1024, 8192)),))
    assert next_length(untold, found.lengths, 0.1) == 5632


def test_a_section_that_has_only_one_of_the_two_is_not_measured() -> None:
    methods = ("softmax", "other", {"name": "linear", "when": "causal"})
    info = run_of({"name": "t", "axes": {"N": ("2^8..2^10",), "causal": (True, False)}, "methods": methods})
    kept = side_by_side(info.cells, info.suite.axes, frozenset({"linear", "softmax"}))
    assert {(cell.method, cell.problem.causal) for cell in kept} == {("linear", True), ("softmax", True)}
    assert len(kept) == 6
    assert side_by_side(info.cells, info.suite.axes, frozenset({"linear", "absent"})) == ()
