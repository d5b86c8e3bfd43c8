"""What a run starts, in which order, and what it makes of the answers; workers are played by a fake."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attnbench.analyze.cells import summarize
from attnbench.schedule.cells import CellJobs
from attnbench.schedule.ledger import Ledger
from attnbench.schedule.rounds import rounds
from attnbench.schema.cell import Cell
from attnbench.schema.cost import Cost
from attnbench.schema.errand import Description, Job, Pass, Roof
from attnbench.schema.outcome import Failed, Measured, Outcome, Series, Status
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from tests.schedule.played import HERE, FakeWorker, measured, records_of, run_of, small

SUITE = {
    "name": "t",
    "axes": {"N": ["2^7..2^9"], "causal": [True, False]},
    "methods": ("a", "b", {"name": "c", "params": {"x": (1, 2)}}),
    "replicates": 3,
}

MODEL: dict[str, Any] = {"workloads": "train", "axes": {"N": (128,), "causal": True}, "training": {}, "methods": ("a",)}


def run_info(costs: dict[str, Cost] | None = None, **suite: object) -> RunInfo:
    roof = {"float32": Roof(flops_per_second=1e9, bytes_per_second=1e9)}
    return run_of({**SUITE, **suite}, costs=costs or {}, surroundings=HERE.model_copy(update={"roof": roof}))


def run(info: RunInfo, worker: FakeWorker, known: list[Record] | None = None, **fields: Any) -> list[Record]:
    checkpoints = fields.pop("checkpoints", None)
    return records_of(rounds(CellJobs(info, Ledger.of(known or []), **fields)), info, worker, checkpoints)


def checks_of(info: RunInfo) -> dict[str, tuple[Cell, ...]]:
    return {cell.key: (small(cell),) for cell in info.cells}


def fails(
    status: Status, method: str, *, above: int = 0, phase: Pass = Pass.TIME, reason: str = "so it is", tries: int = 9
) -> Callable[[Job], Outcome]:
    """A worker on which one pass of a method fails from a length on; `tries` says how often at most."""

    def answer(job: Job) -> Outcome:
        failing = job.cell.method == method and job.phase is phase and above < job.cell.problem.N and job.attempt < tries
        return Failed(status=status, reason=reason) if failing else measured(job)

    return answer


def test_every_cell_gets_every_replicate_once_a_round_from_short_to_long_and_one_memory_pass() -> None:
    info, worker = run_info(), FakeWorker()
    records = run(info, worker)
    passes = Counter((r.job.cell.key, r.job.phase) for r in records)
    assert passes == {(cell.key, phase): n for cell in info.cells for phase, n in ((Pass.TIME, 3), (Pass.MEMORY, 1))}
    assert (order := [(job.replicate, job.cell.problem.N) for job in worker.timed()]) == sorted(order)
    assert worker.servers == 3
    assert {job.B for job in worker.jobs} == {None}, "a stated batch is not searched for"
    # inputs are fresh in each replicate, and alike for the methods of a block
    seeds = {(job.cell.problem, job.replicate): job.seed for job in worker.timed()}
    assert len(set(seeds.values())) == len(seeds)
    assert all(seeds[job.cell.problem, job.replicate] == job.seed for job in worker.jobs)


def test_methods_of_a_block_run_side_by_side_in_an_order_that_the_seed_decides() -> None:
    def orders(seed: int) -> list[list[str]]:
        info, worker = run_info(seed=seed), FakeWorker()
        run(info, worker)
        labels = [job.cell.label for job in worker.timed()]
        return [labels[i : i + 4] for i in range(0, len(labels), 4)]

    assert all(sorted(block) == ["a", "b", "c(x=1)", "c(x=2)"] for block in orders(0))
    assert len({tuple(block) for block in orders(0)}) > 3
    assert orders(0) == orders(0)
    assert orders(0) != orders(1)


def test_later_replicates_take_the_warm_up_of_the_first_and_may_take_their_time() -> None:
    worker = FakeWorker()
    run(run_info(budget={"seconds": 4.0}), worker)
    told = {(job.replicate > 0, job.warmup, job.limits.first_call) for job in worker.timed()}
    assert told == {(False, None, 2.0), (True, 7, None)}


@pytest.mark.parametrize("status", [Status.OOM_HOST, Status.OOM_DEVICE, Status.BUDGET])
def test_what_ran_out_at_a_length_is_not_started_above_it_and_each_such_cell_is_a_row(status: Status) -> None:
    info, worker = run_info(), FakeWorker(fails(status, "a", above=128))
    records = run(info, worker)
    of_a = [r for r in records if r.job.cell.method == "a" and r.job.phase is Pass.TIME]
    assert {job.cell.problem.N for job in worker.timed() if job.cell.method == "a"} == {128, 256}
    above = [r.outcome for r in of_a if r.job.cell.problem.N == 512]
    assert len(above) == 2  # causal and not
    assert all(isinstance(o, Failed) and o.status is status and "at N=256" in o.reason for o in above)
    assert {r.job.cell.key for r in records if r.job.phase is Pass.TIME} == {cell.key for cell in info.cells}


def test_a_crash_ends_its_own_cell_only_which_has_no_memory_pass() -> None:
    worker = FakeWorker(fails(Status.CRASHED, "a", above=256))
    records = run(run_info(), worker)
    crashed = Counter(job.cell.problem.N for job in worker.timed() if job.cell.method == "a")
    # twice more each, for a stray kill looks the same
    assert crashed == {128: 6, 256: 6, 512: 6}
    assert {r.job.cell.problem.N for r in records if r.job.cell.method == "a" and r.job.phase is Pass.MEMORY} == {128, 256}


@pytest.mark.parametrize("phase", [Pass.CHECK, Pass.TIME, Pass.MEMORY])
def test_a_job_that_a_stray_kill_ended_is_tried_again_and_both_tries_are_records(phase: Pass) -> None:
    info = run_info(replicates=1, methods=("a", "b"))
    stray = fails(Status.CRASHED, "a", phase=phase, reason="SIGKILL (signal 9)", tries=1)
    records = run(info, FakeWorker(stray), check_cells=checks_of(info))
    tries = {(r.job.attempt, r.ok) for r in records if r.job.phase is phase and r.job.cell.method == "a"}
    assert tries == {(0, False), (1, True)}
    assert all(cell.ok for cell in summarize(info.cells, records))
    assert {r.job.attempt for r in records if r.job.cell.method == "b"} == {0}


def test_a_method_is_called_unfair_only_if_two_tries_say_so_and_any_other_failure_where_nothing_is_believed_on_one() -> None:
    info = run_info(replicates=1, methods=("a", "b"))
    once = run(info, FakeWorker(fails(Status.UNFAIR, "a", reason="it keeps results", tries=1)))
    assert all(cell.ok for cell in summarize(info.cells, once))
    always = summarize(info.cells, run(info, FakeWorker(fails(Status.UNFAIR, "a", reason="it keeps results"))))
    assert {(cell.cell.method, cell.ok) for cell in always} == {("a", False), ("b", True)}
    jobs = CellJobs(info, Ledger(doubted=dict.fromkeys(Status, 2)))
    doubted = records_of(rounds(jobs), info, FakeWorker(fails(Status.BUDGET, "a", tries=1)))
    assert all(cell.ok for cell in summarize(info.cells, doubted))


def test_a_method_is_checked_once_per_mask_and_parameters_before_it_is_timed() -> None:
    info, worker = run_info(), FakeWorker()
    run(info, worker, check_cells=checks_of(info))
    phases: dict[object, list[Pass]] = {}
    for job in worker.jobs:
        phases.setdefault((job.cell.label, job.cell.problem.causal), []).append(job.phase)
    assert len(phases) == 2 * 4
    assert all(each[0] is Pass.CHECK and each.count(Pass.CHECK) == 1 for each in phases.values())


IN_A_MODEL: dict[str, Any] = {"axes": {"N": ["2^7..2^9"], "causal": [True, False], "H": 4, "kv_heads": 2}}
"""Cells whose heads share keys and values, which a model repeats for methods that are checked without groups."""


@pytest.mark.parametrize("suite", [{}, IN_A_MODEL])
def test_a_method_that_tunes_itself_is_checked_with_the_shape_that_is_timed(suite: dict[str, Any]) -> None:
    plain = Description(method="", paper="", tier="", causality="", summary="", version="")
    methods = {name: plain.model_copy(update={"method": name, "tunes": name == "a"}) for name in "abc"}
    info = run_info(**suite).model_copy(update={"methods": methods})
    worker = FakeWorker()
    run(info, worker, check_cells=checks_of(info))
    tuned = {(job.cell.method, job.phase, job.tuned_at.problem) for job in worker.jobs if job.tuned_at is not None}
    # at the first of its cells, since what it finds is kept for the others; with the heads that it attends
    H = info.cells[0].problem.H
    assert {(method, phase, p.N, p.H, p.kv_heads) for method, phase, p in tuned} == {("a", Pass.CHECK, 128, H, H)}
    assert {job.cell.method for job in worker.jobs if job.phase is Pass.CHECK and job.tuned_at is None} == {"b", "c"}


@pytest.mark.parametrize(
    ("device", "budget", "seconds"),
    [
        ("cpu", {"seconds": 4}, 92),
        ("cuda:0", {"seconds": 4}, 600),
        ("cuda:0", {"seconds": 100}, 860),
        ("cpu", {"timeout": 30}, 30),
        ("cpu", {"timeout": 30, "check_timeout": 5}, 5),
        ("cuda:0", {"timeout": 30, "check_timeout": 50}, 50),
    ],
)
def test_a_check_has_a_time_of_its_own_in_which_a_gpu_compiles(device: str, budget: dict[str, float], seconds: float) -> None:
    info, worker = run_info(budget=budget), FakeWorker()
    cells = tuple(cell.model_copy(update={"device": device}) for cell in info.cells[:1])
    run(info.model_copy(update={"cells": cells}), worker, check_cells={cells[0].key: (small(cells[0]),)})
    limits = {job.phase: job.limits.timeout for job in worker.jobs}
    assert limits[Pass.CHECK] == seconds
    assert limits[Pass.TIME] == info.suite.budget.timeout_of("cpu", checks=False)


@pytest.mark.parametrize("suite", [{}, IN_A_MODEL])
def test_a_method_that_fails_its_check_is_never_timed_and_its_cells_say_why(suite: dict[str, Any]) -> None:
    info, worker = run_info(**suite), FakeWorker(fails(Status.INCORRECT, "b", phase=Pass.CHECK, reason="output off by 1"))
    records = run(info, worker, check_cells=checks_of(info))
    assert not [job for job in worker.timed() if job.cell.method == "b"]
    of_b = [r.outcome for r in records if r.job.cell.method == "b" and r.job.phase is Pass.TIME]
    assert of_b == [Failed(status=Status.INCORRECT, reason="its check: output off by 1")] * 6


def test_a_refused_cell_and_one_that_cannot_fit_its_budget_by_the_roof_are_rows_and_not_started() -> None:
    cells, no = run_info().cells, Failed(status=Status.UNSUPPORTED, reason="no")
    slow = Cost(nominal_flops=0, exact_flops=0, executed_flops=1e11, traffic_bytes=0)
    info, worker = run_info(costs={c.key: slow for c in cells if c.method == "b"}), FakeWorker()
    records = run(info, worker, refusals={cell.key: no for cell in cells if cell.method == "a"})
    assert {job.cell.method for job in worker.jobs} == {"c"}
    rows = Counter((r.job.cell.method, r.outcome.reason) for r in records if isinstance(r.outcome, Failed))
    assert rows == {("a", "no"): 6, ("b", "not started: a call takes at least 100 s by the roof, 7.5 s are allowed"): 6}


def test_a_roof_that_a_measurement_contradicts_refuses_nothing() -> None:
    """The machine was busy when its roof was measured: 1 GFLOP/s, where a call of "b" reaches 20; that of "c" took no time."""
    heavy = Cost(nominal_flops=0, exact_flops=0, executed_flops=2e10, traffic_bytes=0)
    light = heavy.model_copy(update={"executed_flops": 2e9})
    cells = run_info().cells
    # of "b" the shorter cells fit the budget by the roof, the longer do not
    info = run_info(costs={c.key: light if c.problem.N == 128 else heavy for c in cells if c.method == "b"})
    worker = FakeWorker(lambda job: Measured(samples={"time": Series(unit="s", values=(0.1 * (job.cell.method != "c"),))}))
    run(info, worker)
    assert {job.cell.problem.N for job in worker.timed() if job.cell.method == "b"} == {128, 256, 512}


def test_a_throttled_or_shared_replicate_is_taken_again_twice_at_most_and_a_training_never() -> None:
    def answer(job: Job) -> Outcome:
        flags = ("throttled",) if job.cell.method == "a" else ("shared",) if job.attempt == 0 else ()
        return Measured(samples={"time": Series(unit="s", values=(1.0,))}, flags=flags)

    # every attempt is kept
    records = run(run_info(replicates=1), FakeWorker(answer))
    attempts = Counter((r.job.cell.method, r.job.cell.key) for r in records if r.job.phase is Pass.TIME)
    assert {(method, count) for (method, _), count in attempts.items()} == {("a", 3), ("b", 2), ("c", 2)}
    records = run(run_info(**MODEL, replicates=2), FakeWorker(answer))
    assert [r.job.replicate for r in records if r.job.phase is Pass.TRAIN] == [0, 1]


@pytest.mark.parametrize("cut", [0, 1, 3, 5, 8, 9, 10, 17, 20, 30, 40])
@pytest.mark.parametrize("kind", ["stated batches", "batches searched for", "several tries"])
def test_a_run_that_was_cut_anywhere_and_goes_on_has_the_cells_of_an_undisturbed_one_none_twice(kind: str, cut: int) -> None:
    info, answer, checks = {
        "stated batches": (run_info(), fails(Status.OOM_HOST, "a", above=256), checks_of(run_info())),
        "batches searched for": (run_info(**SEARCH), holds(100), {}),
        "several tries": (run_info(methods=("a",)), fails(Status.CRASHED, "a", tries=2), {}),
    }[kind]
    whole = run(info, FakeWorker(answer), check_cells=checks)
    rest = run(info, FakeWorker(answer), known=whole[:cut], check_cells=checks)

    def jobs(records: list[Record]) -> Counter[tuple[object, ...]]:
        return Counter((r.job.cell.key, r.job.phase, r.job.replicate, r.job.B, r.job.attempt) for r in records)

    assert jobs(whole[:cut] + rest) == jobs(whole) == dict.fromkeys(jobs(whole), 1)
    kept, lacking = CellJobs(info, Ledger.of(whole[:cut]), check_cells=checks), {r.job.cell.key for r in rest}
    assert all(kept.finished(cell) == (cell.key not in lacking) for cell in info.cells)


SEARCH: dict[str, Any] = {
    "axes": {"N": [128, 256], "causal": [True], "B": ("max",)},
    "methods": ("a", "b"),
    "workloads": ("decode",),
    "replicates": 2,
}


def holds(rows: int, full: Status = Status.OOM_HOST) -> Callable[[Job], Outcome]:
    """A worker that has room for so many rows of 128 tokens of "a", and for few of the other."""

    def answer(job: Job) -> Outcome:
        room = (rows if job.cell.method == "a" else 2) * 128 // job.cell.problem.N
        if job.phase is Pass.FIT and job.B is not None and room < job.B:
            return Failed(status=full, reason="full")
        return measured(job)

    return answer


def of(records: list[Record], method: str, N: int) -> list[Record]:
    return [r for r in records if r.job.cell.method == method and r.job.cell.problem.N == N]


def test_the_largest_batch_is_searched_for_once_before_the_first_time_and_all_later_passes_have_it() -> None:
    records = run(run_info(**SEARCH), FakeWorker(holds(100)))
    mine = of(records, "a", 128)
    assert [r.job.phase.value for r in mine] == ["fit"] * 10 + ["time", "memory", "time"]
    assert [r.job.B for r in mine][:10] == [1, 4, 16, 64, 256, 160, 112, 88, 100, 106]
    later = (mine[10:], *(of(records, method, 256)[-3:] for method in "ab"))
    assert [{r.job.B for r in each} for each in later] == [{100}, {49}, {1}]


@pytest.mark.parametrize("full", [Status.OOM_HOST, Status.OOM_DEVICE])
def test_a_batch_that_fits_and_then_runs_out_of_memory_when_measured_was_too_large(full: Status) -> None:
    def answer(job: Job) -> Outcome:
        if job.phase is Pass.TIME and (job.B or 0) > 90:
            return Failed(status=full, reason="grown full")
        return holds(100)(job)

    records = of(run(run_info(**SEARCH), FakeWorker(answer)), "a", 128)
    timed = [(r.job.B, r.ok) for r in records if r.job.phase is Pass.TIME]
    assert timed == [(100, False), (97, False), (94, False), (91, False), (88, True), (88, True)]
    assert [r.job.B for r in records if r.job.phase is Pass.MEMORY] == [88]
    cell = records[0].job.cell
    assert Ledger.of(records).batch(cell) == 88
    (found,) = summarize([cell], records)
    assert (found.status, found.median, found.bound) == ("ok", 1.5, full.value)
    (unfinished,) = summarize([cell], records[: [r.job.phase for r in records].index(Pass.TIME) + 1])
    why = "B=100 fitted, and ran out of memory when it was measured; no smaller one has been measured"
    assert (unfinished.status, unfinished.reason) == (full.value, why)


@pytest.mark.parametrize(
    ("share", "allocator", "trial", "timed"),
    [(0.25, "retain", 225, 500), (0.5, "retain", 450, 900), (0.95, "retain", 855, 950), (0.5, "system", 450, 500)],
)
def test_a_trial_has_nine_tenths_of_the_memory_and_a_timing_more(share: float, allocator: str, trial: int, timed: int) -> None:
    worker = FakeWorker(holds(100))
    suite = {**SEARCH, "axes": {**SEARCH["axes"], "allocator": allocator}, "budget": {"memory": share, "seconds": 4.0}}
    run(run_info(**suite), worker)
    limits = {(job.phase, job.limits.memory_bytes, job.limits.first_call) for job in worker.jobs}
    assert limits == {(Pass.FIT, trial, 2.0), (Pass.TIME, timed, None), (Pass.MEMORY, int(1000 * share), None)}


def test_a_cell_of_which_not_even_one_row_fits_fails_and_longer_ones_are_not_started() -> None:
    worker = FakeWorker(holds(0))
    records = run(run_info(**SEARCH), worker)
    assert [(job.phase, job.B) for job in worker.jobs if job.cell.method == "a"] == [(Pass.FIT, 1)]
    short, long = (r.outcome for r in records if r.job.cell.method == "a" and r.job.phase is Pass.TIME)
    assert short == Failed(status=Status.OOM_HOST, reason="full")
    assert long == Failed(status=Status.OOM_HOST, reason="not started: out of memory at N=128")


def test_a_trial_that_crashes_is_too_large_and_ends_nothing() -> None:
    crashed, full = (run(run_info(**SEARCH), FakeWorker(holds(100, status))) for status in (Status.CRASHED, Status.OOM_HOST))
    for N in (128, 256):
        # a crash is not believed on one try, nor on two
        believed = [r for r in of(crashed, "a", N) if r.job.attempt == 2 or r.ok]
        assert [(r.job.phase, r.job.B) for r in believed] == [(r.job.phase, r.job.B) for r in of(full, "a", N)]
        assert isinstance(of(crashed, "a", N)[-1].outcome, Measured)


def test_one_row_that_crashes_or_runs_out_of_memory_when_measured_ends_its_cell_with_that() -> None:
    *trials, last = of(run(run_info(**SEARCH), FakeWorker(holds(0, Status.CRASHED))), "a", 128)
    assert [trial.job.B for trial in trials] == [1, 1, 1]
    assert (last.job.phase, last.outcome) == (Pass.TIME, Failed(status=Status.CRASHED, reason="full"))
    grown = Failed(status=Status.OOM_HOST, reason="grown full")
    worker = FakeWorker(lambda job: grown if job.phase is Pass.TIME and job.B is not None else holds(4)(job))
    last = of(run(run_info(**SEARCH), worker), "a", 128)[-1]
    assert (last.job.B, last.outcome) == (None, grown)


def test_a_found_batch_that_fails_in_its_time_pass_does_not_stop_longer_ones() -> None:
    def answer(job: Job) -> Outcome:
        if job.phase is Pass.TIME and job.cell.problem.N == 128:
            return Failed(status=Status.TIMEOUT, reason="after all")
        return holds(100)(job)

    records = run(run_info(**SEARCH), FakeWorker(answer))
    assert [r.job.phase for r in of(records, "a", 256)][-3:] == [Pass.TIME, Pass.MEMORY, Pass.TIME]
    assert isinstance(of(records, "a", 256)[-1].outcome, Measured)


def test_memory_is_limited_to_the_share_of_what_was_free_on_a_cpu_and_not_at_all_on_a_gpu() -> None:
    worker, info = FakeWorker(), run_info(budget={"memory": 0.5})
    run(info, worker)
    assert {job.limits.memory_bytes for job in worker.jobs} == {500}
    assert CellJobs(info, Ledger()).memory_bytes(info.cells[0].model_copy(update={"device": "cuda:0"}), Pass.TIME) is None


def test_a_cell_for_fidelity_gets_its_own_pass_a_check_and_neither_clock_nor_memory() -> None:
    info = run_info(workloads="fidelity", axes={"N": (128, 256)}, methods=("a",))
    worker = FakeWorker()
    run(info, worker, check_cells={info.cells[0].key: (small(info.cells[0]),)})
    jobs = [(job.phase, job.replicate) for job in worker.jobs]
    assert jobs[0] == (Pass.CHECK, 0)
    assert jobs[1:] == [(Pass.FIDELITY, replicate) for replicate in range(3) for _ in info.cells]
    # one that fails is not tried again, nor a longer one
    worker = FakeWorker(lambda job: Failed(status=Status.OOM_HOST, reason="so it is"))
    records = run(info, worker)
    assert len(worker.jobs) == 1
    reasons = [r.outcome.reason for r in records if isinstance(r.outcome, Failed)]
    assert reasons == ["so it is", "not started: out of memory at N=128"]
    assert {r.job.phase for r in records} == {Pass.FIDELITY}


def test_a_training_is_one_pass_a_seed_and_one_for_memory_and_no_record_says_where_its_checkpoints_lay(tmp_path: Path) -> None:
    worker = FakeWorker()
    records = run(run_info(**MODEL), worker, checkpoints=tmp_path)
    assert Counter((job.phase, job.folder) for job in worker.jobs) == {(Pass.TRAIN, str(tmp_path)): 3, (Pass.MEMORY, None): 1}
    assert {record.job.folder for record in records} == {None}
    assert not any(str(tmp_path) in record.line() for record in records)
