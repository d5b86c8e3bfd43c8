"""The search for the longest: how near it comes, what it starts, and what it makes of failures."""

from collections.abc import Callable
from math import log2
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnbench.analyze.limits import limits
from attnbench.schedule.cells import CellJobs
from attnbench.schedule.ledger import Ledger, largest
from attnbench.schedule.longest import first_cells, next_length, searches
from attnbench.schema.errand import Job, Pass
from attnbench.schema.outcome import Failed, Measured, Outcome, Status
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.suite.expand import expand
from tests.schedule.played import FakeWorker, records_of, run_of, small

MOST = 2**14


def trials(truth: int, least: int = 512, most: int = 2**22) -> dict[int, bool]:
    """All of a search in which whatever is at most `truth` fits; no length is tried twice."""
    fits: dict[int, bool] = {}
    while (N := next_length(fits, least, most)) is not None:
        assert N not in fits
        assert least <= N <= most
        fits[N] = truth >= N
    return fits


@given(st.integers(1, 2000), st.integers(0, 2**21), st.integers(0, 2**20))
def test_the_longest_is_found_to_one_part_in_sixteen_in_few_trials(least: int, more: int, room: int) -> None:
    truth, most = least + more, least + more + room
    fits = trials(truth, least, most)
    found = largest(fits)
    assert found <= truth
    assert truth - found < max(1, found / 16)
    # doubling up to the first that is too long, then halving a gap of the last to a sixteenth of it
    assert len(fits) <= log2(most / least) + 2 + 6


def test_from_a_power_of_two_on_lengths_are_multiples_of_a_sixteenth_of_the_last_power() -> None:
    assert list(trials(5000)) == [512, 1024, 2048, 4096, 8192, 6144, 5120, 4608, 4864]
    for truth in range(600, 60_000, 997):
        power = 2 ** int(log2(truth))
        assert not [N for N in trials(truth) if power < N and N % (power // 16)]


def test_the_shortest_and_the_limit_end_the_search_and_a_length_that_fails_below_one_that_fits_does_not() -> None:
    assert (trials(0), list(trials(2**30, most=3000))) == ({512: False}, [512, 1024, 2048, 3000])
    assert trials(2**30, most=512) == {512: True}
    assert next_length({512: True, 1024: False, 2048: True}, 512, 4096) == 4096


def room(tokens: int, full: Status = Status.OOM_HOST) -> Callable[[Job], Outcome]:
    """A machine that holds so many tokens of a batch."""

    def answer(job: Job) -> Outcome:
        B = job.B or job.cell.problem.B
        if job.phase is Pass.FIT and tokens < B * job.cell.problem.N:
            return Failed(status=full, reason="full")
        return Measured(facts={"B": job.B, "seconds": 0.5})

    return answer


def run_info(batch: bool = False, **suite: Any) -> RunInfo:
    """A run as the command plans it: one cell a search, or the largest batch of each length."""
    axes = {"N": (512, 2048), "causal": (True,), **({"B": ("max",)} if batch else {}), **suite.pop("axes", {})}
    run = run_of({"name": "t", "axes": axes, "methods": ("a", "b"), "replicates": 1, **suite})
    return run if batch else run.model_copy(update={"cells": tuple(first_cells(run.cells, {}))})


def search(info: RunInfo, worker: FakeWorker, **fields: Any) -> list[Record]:
    on_end = fields.pop("on_end", id)
    return records_of(searches(CellJobs(info, Ledger(), **fields), MOST, on_end), info, worker)


def test_searches_begin_at_the_shortest_length_that_is_not_refused_in_the_order_of_the_run() -> None:
    cells = expand(run_info(methods=("a", "b", "c")).suite)
    no = Failed(status=Status.UNSUPPORTED, reason="no")
    refused = {c.key: no for c in cells if (c.method, c.problem.N) == ("a", 512) or c.method == "b"}
    assert [(c.method, c.problem.N) for c in first_cells(cells, refused)] == [("a", 2048), ("b", 512), ("c", 512)]


def test_every_trial_is_a_record_and_the_memory_of_the_longest_is_measured_last() -> None:
    worker, told = FakeWorker(room(1500)), list[str]()
    records = search(run_info(), worker, on_end=lambda cell: told.append(cell.method))
    assert [r.job for r in records] == worker.jobs
    passes = [(r.job.phase.value, r.job.cell.problem.N) for r in records if r.job.cell.method == "a"]
    assert passes == [*(("fit", N) for N in (512, 1024, 2048, 1536, 1280, 1408, 1472)), ("memory", 1472)]
    assert told == ["a", "b"], "the end of each search is told"


def test_a_stated_batch_is_tried_and_measured_as_it_is() -> None:
    info = run_info(axes={"B": (8,)})
    records = search(info, FakeWorker(room(8 * 600)))
    assert {(r.job.B, r.job.cell.problem.B) for r in records} == {(8, 8)}
    assert [found.value for found in limits(info.cells, records, MOST)] == [576, 576]


@pytest.mark.parametrize("full", [Status.OOM_HOST, Status.TIMEOUT, Status.BUDGET, Status.CRASHED, Status.ERROR])
def test_however_a_trial_fails_it_does_not_fit_and_its_status_is_told(full: Status) -> None:
    info = run_info()
    found, _ = limits(info.cells, search(info, FakeWorker(room(1500, full))), MOST)
    assert (found.value, found.bound_at, found.finished) == (1472, 1536, True)
    assert found.bound == Failed(status=full, reason="full")


def test_a_method_that_fails_at_its_first_length_costs_one_trial_and_a_refused_one_none() -> None:
    info, worker = run_info(), FakeWorker(room(100, Status.CRASHED))
    refusals = {c.key: Failed(status=Status.MISSING, reason="pip install it") for c in info.cells if c.method == "a"}
    records = search(info, worker, refusals=refusals)
    assert [(job.cell.method, job.phase) for job in worker.jobs] == [("b", Pass.FIT)]
    told = [(f.value, f.summary.status, f.summary.reason) for f in limits(info.cells, records, MOST)]
    assert told == [(0, "missing", "pip install it"), (0, "crashed", "full")]


@pytest.mark.parametrize("axes", [{}, {"H": 4, "kv_heads": 2}], ids=["alone", "in a model that repeats its keys"])
def test_a_method_is_checked_first_and_one_that_is_wrong_is_not_searched(axes: dict[str, int]) -> None:
    def answer(job: Job) -> Outcome:
        wrong = job.phase is Pass.CHECK and job.cell.method == "a"
        return Failed(status=Status.INCORRECT, reason="off by one") if wrong else room(1500)(job)

    info, worker = run_info(axes=axes), FakeWorker(answer)
    records = search(info, worker, check_cells={cell.key: (small(cell),) for cell in info.cells})
    assert [job.phase for job in worker.jobs if job.cell.method == "a"] == [Pass.CHECK]
    wrong, right = limits(info.cells, records, MOST)
    assert (wrong.summary.status, wrong.summary.reason) == ("incorrect", "its check: off by one")
    assert right.value == 1472


def test_the_largest_batch_of_each_length_is_searched_for_and_no_time_taken() -> None:
    info, worker = run_info(batch=True, workloads="decode"), FakeWorker(room(100 * 512))
    records = search(info, worker)
    assert {job.phase for job in worker.jobs} == {Pass.FIT, Pass.MEMORY}
    found = {(f.summary.cell.method, f.summary.cell.problem.N): f.value for f in limits(info.cells, records, 2**16 - 1)}
    assert found == {("a", 512): 100, ("b", 512): 100, ("a", 2048): 25, ("b", 2048): 25}
    assert {job.B for job in worker.jobs if job.phase is Pass.MEMORY} == {100, 25}
    # where not one row fits, longer ones are not started
    records = search(info, FakeWorker(room(100)))
    reasons = {f.summary.cell.problem.N: f.summary.reason for f in limits(info.cells, records, 2**16 - 1)}
    assert reasons == {512: "full", 2048: "not started: out of memory at N=512"}
