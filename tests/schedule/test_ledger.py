"""What is known of a run: which cells need not be started (again), and that no order of telling changes it."""

from math import log2
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbench.schedule.cells import MOST_ROWS
from attnbench.schedule.ledger import Ledger, largest, next_trial
from attnbench.schedule.rounds import bundles
from attnbench.schema.cell import Allocator, Batch, Cell, Precision, Workload
from attnbench.schema.errand import Job, Pass
from attnbench.schema.noun import Scalar
from attnbench.schema.outcome import Failed, Measured, Outcome, Status
from attnbench.schema.problem import Problem
from attnbench.schema.record import Record
from attnbench.session.lanes import fill

MONOTONIC = [Status.OOM_DEVICE, Status.OOM_HOST, Status.BUDGET, Status.TIMEOUT]


def cell(N: int = 128, *, method: str = "m", workload: str = "forward", device: str = "cpu", **fields: Scalar) -> Cell:
    params = {name: fields.pop(name) for name in ("chunk",) if name in fields}
    return Cell(method=method, problem=Problem(N=N, **fields), workload=Workload(workload), params=params, device=device)


def record(
    of: Cell, outcome: Outcome, phase: Pass = Pass.TIME, replicate: int = 0, attempt: int = 0, B: int | None = None
) -> Record:
    job = Job(cell=of, phase=phase, replicate=replicate, attempt=attempt, B=B)
    return Record(job=job, outcome=outcome, environment="e", started="t")


def failed(status: Status, reason: str = "r") -> Failed:
    return Failed(status=status, reason=reason)


def warm(count: Scalar) -> Measured:
    return Measured(facts={"warmup_calls": count})


def why(ledger: Ledger, of: Cell) -> tuple[Status, str] | None:
    hopeless = ledger.hopeless(of)
    return None if hopeless is None else (hopeless.status, hopeless.reason)


def searched(N: int = 128) -> Cell:
    return cell(N).model_copy(update={"batch": Batch.LARGEST})


def trial(B: int, outcome: Outcome | None = None, N: int = 128) -> Record:
    return record(searched(N), outcome or Measured(facts={"B": B}), Pass.FIT, B=B)


@pytest.mark.parametrize("phase", list(Pass))
def test_an_interrupted_record_is_as_good_as_none_and_takes_nothing_back(phase: Pass) -> None:
    interrupted = record(cell(), failed(Status.INTERRUPTED), phase)
    assert Ledger.of([interrupted]) == Ledger()
    for known in (record(cell(), warm(3)), trial(1)):
        assert Ledger.of([known, interrupted]) == Ledger.of([known])


def test_a_cell_is_measured_once_its_first_replicate_is_and_none_failed_though_a_memory_pass_may() -> None:
    assert not Ledger.of([record(cell(), Measured(), replicate=1)]).measured(cell())
    assert not Ledger.of([record(cell(), Measured()), record(cell(), failed(Status.CRASHED), replicate=1)]).measured(cell())
    ledger = Ledger.of([record(cell(), Measured()), record(cell(), failed(Status.OOM_HOST), Pass.MEMORY)])
    assert ledger.measured(cell())
    assert not ledger.failed(cell())
    assert ledger.hopeless(cell(256)) is None


OTHERS: tuple[dict[str, Any], ...] = (
    *({"method": "other"}, {"causal": True}, {"dtype": "float16"}, {"device": "cuda"}),
    *({"D": 32}, {"M": 32}, {"kv_heads": 1}, {"chunk": 4}),
)
"""What makes a cell part of another sweep, and one that another check speaks for."""


def test_a_failed_check_spreads_to_all_cells_it_speaks_for_and_to_no_others() -> None:
    ledger = Ledger.of([record(cell(64), failed(Status.INCORRECT, "o differs by 0.3"), Pass.CHECK)])
    assert ledger.checked(cell(64))
    assert not ledger.checked(cell(65))
    for spoilt in (cell(64), cell(2**16), cell(8, B=4, H=2), cell(workload="forward_backward"), searched()):
        assert why(ledger, spoilt) == (Status.INCORRECT, "its check: o differs by 0.3")
    others = [*(cell(**fields) for fields in OTHERS), cell().model_copy(update={"matmul_precision": Precision.HIGH})]
    # decoding has its own
    others.append(cell(workload="decode"))
    assert not any(ledger.rejected(other) or ledger.hopeless(other) for other in others)
    steps = Ledger.of([record(cell(64, workload="decode"), failed(Status.INCORRECT), Pass.CHECK)])
    assert steps.rejected(cell(workload="decode_total"))
    assert not steps.rejected(cell())


@pytest.mark.parametrize(
    ("status", "N", "rejected"),
    [(Status.INCORRECT, 128, True), (Status.ERROR, 128, True), (Status.OOM_HOST, 128, False), (Status.OOM_HOST, 512, True)],
)
def test_a_check_that_ran_out_of_memory_on_more_tokens_rejects_no_cell(status: Status, N: int, rejected: bool) -> None:
    ledger = Ledger.of([record(cell(321), failed(status), Pass.CHECK)])
    assert (ledger.rejected(cell(N)) is not None) is rejected


@pytest.mark.parametrize("status", list(Status))
def test_what_runs_out_at_one_length_is_not_started_at_a_longer_one_and_no_other_failure_says_so(status: Status) -> None:
    ledger = Ledger.of([record(cell(128), failed(status))])
    assert ledger.hopeless(cell(64)) is None
    assert ledger.hopeless(cell(128)) is None, "its own record says it already"
    found = ledger.hopeless(cell(256))
    assert (found is not None) is (status in MONOTONIC)
    if found is not None:
        assert found.status is status
        assert found.reason.startswith("not started: ")
        assert found.reason.endswith(" at N=128")


def test_running_out_says_nothing_of_other_sweeps() -> None:
    ledger = Ledger.of([record(cell(128), failed(Status.OOM_HOST))])
    others = [cell(256, **fields) for fields in (*OTHERS, {"workload": "forward_backward"}, {"H": 2})]
    others.append(cell(256).model_copy(update={"allocator": Allocator.SYSTEM}))
    assert not any(ledger.hopeless(other) for other in others)


def test_as_many_tokens_run_out_in_longer_sequences_and_each_smaller_batch_has_a_ceiling_of_its_own() -> None:
    ran_out = [(2048, 64, Status.TIMEOUT), (512, 64, Status.OOM_HOST), (1024, 64, Status.BUDGET), (4096, 1, Status.BUDGET)]
    ledger = Ledger.of(record(cell(N, B=B), failed(status)) for N, B, status in ran_out)
    for N, B in ((1024, 1), (1024, 31), (2048, 1)):
        assert ledger.hopeless(cell(N, B=B)) is None
    # the shortest length that ran out is named
    for N, B in ((1024, 32), (1024, 64), (8192, 64)):
        assert why(ledger, cell(N, B=B)) == (Status.OOM_HOST, "not started: out of memory at N=512")
    assert why(ledger, cell(8192, B=1)) == (Status.BUDGET, "not started: over budget at N=4096")


def test_of_what_was_tried_again_the_last_try_counts() -> None:
    for status in MONOTONIC:
        ledger = Ledger.of([record(cell(), failed(status)), record(cell(), Measured(), attempt=1)])
        assert ledger.measured(cell())
        assert ledger.hopeless(cell(N=256)) is None
    assert Ledger.of([record(cell(), Measured()), record(cell(), failed(Status.ERROR), attempt=1)]).failed(cell())
    checks = [record(cell(), failed(Status.CRASHED), Pass.CHECK), record(cell(), Measured(), Pass.CHECK, attempt=1)]
    assert Ledger.of(checks).rejected(cell()) is None


SHARED = Measured(flags=("shared",))


@pytest.mark.parametrize(
    ("outcomes", "counts"),
    [
        # in a row, and whatever was disturbed before or between says nothing against the method
        ([Status.CRASHED, Status.CRASHED, Status.CRASHED], 3),
        ([SHARED, Status.UNFAIR, Status.UNFAIR], 3),
        ([SHARED, SHARED, Status.CRASHED, Status.CRASHED, Status.CRASHED], 5),
        ([Status.CRASHED, SHARED, Status.UNFAIR, Status.UNFAIR], 4),
        ([SHARED, SHARED, SHARED], 3),
    ],
)
def test_a_failure_that_may_be_chance_counts_in_a_row(outcomes: list[Status | Measured], counts: int) -> None:
    ledger = Ledger()
    for number, outcome in enumerate(outcomes, 1):
        assert not ledger.finished(cell(), Pass.TIME, 0)
        found = record(cell(), failed(outcome) if isinstance(outcome, Status) else outcome)
        ledger.add(found.model_copy(update={"job": ledger.again(found.job), "seconds": 1.0}))
        assert ledger.finished(cell(), Pass.TIME, 0) == (number == counts)


def test_a_shorter_length_that_fails_late_rules_out_nothing_that_was_measured() -> None:
    ledger = Ledger.of([record(cell(256), Measured()), record(cell(128), failed(Status.TIMEOUT), replicate=3)])
    assert ledger.hopeless(cell(256)) is None
    assert why(ledger, cell(512)) == (Status.TIMEOUT, "not started: timeout at N=128")


def test_what_is_begun_anew_is_an_attempt_and_nothing_else() -> None:
    ledger = Ledger()
    ledger.begin_anew(record(cell(), failed(Status.BUDGET)))
    assert not ledger.failed(cell())
    assert not ledger.finished(cell(), Pass.TIME, 0)
    assert ledger.hopeless(cell(N=256)) is None
    again = ledger.again(record(cell(), Measured()).job)
    assert (again.attempt, again.excused) == (1, 1)


def test_what_a_device_had_of_a_cell_before_another_began_it_anew_is_left_aside() -> None:
    """As a share of a run does that goes on at one node, at another, and at the first again."""
    ledgers: dict[str, Ledger] = {}
    first = [
        record(cell(N), Measured(), replicate=r).model_copy(update={"environment": "a"}) for N in (64, 128) for r in (0, 1)
    ]
    other = record(cell(64), failed(Status.BUDGET), attempt=1).model_copy(update={"environment": "b"})
    fill(ledgers, [*first, other])
    assert [ledgers["a"].finished(cell(N), Pass.TIME, 1) for N in (64, 128)] == [False, True]
    assert ledgers["b"].failed(cell(64))
    fill(ledgers := {}, [*first, other, *first[:1]])
    assert [ledgers["a"].finished(cell(64), Pass.TIME, r) for r in (0, 1)] == [True, False]
    assert not ledgers["b"].failed(cell(64))


def test_the_warm_up_is_that_of_the_first_replicate_and_its_first_attempt_if_it_was_counted() -> None:
    ledger = Ledger.of([record(cell(), warm(7)), record(cell(), warm(9), attempt=1), record(cell(), warm(3), replicate=1)])
    assert (ledger.warmup(cell()), ledger.warmup(cell(256))) == (7, None)
    assert all(Ledger.of([record(cell(), outcome)]).warmup(cell()) is None for outcome in (Measured(), warm("7"), warm(1.5)))


FULL = failed(Status.OOM_HOST, "memory limit")


def test_a_batch_that_ran_out_of_memory_when_measured_is_too_large_however_often_it_was_tried_before() -> None:
    again = record(searched(), Measured(facts={"B": 4}), Pass.FIT, attempt=1, B=4)
    ledger = Ledger.of([trial(1), trial(4, failed(Status.CRASHED)), again, trial(16, FULL), record(searched(), FULL, B=4)])
    assert (ledger.batch(searched()), ledger.next_batch(searched(), 64)) == (1, 2)


def test_a_search_is_its_own_cell_s_and_its_failure_fails_no_cell() -> None:
    ledger = Ledger.of([trial(1), trial(4, FULL)])
    for other in (cell(128), searched(256)):
        assert (ledger.batch(other), ledger.next_batch(other, 64)) == (None, 1)
    assert not ledger.failed(searched())
    assert ledger.hopeless(searched(256)) is None
    # where one row does not fit, longer ones are hopeless, but not with a stated batch
    ledger = Ledger.of([record(searched(), FULL)])
    assert why(ledger, searched(256)) == (Status.OOM_HOST, "not started: out of memory at N=128")
    assert ledger.hopeless(cell(256)) is None


@pytest.mark.parametrize("status", [s for s in Status if s is not Status.INTERRUPTED])
def test_however_a_trial_fails_it_is_too_large_and_where_one_row_does_there_is_no_batch_and_a_reason(status: Status) -> None:
    ledger = Ledger.of([trial(1), trial(4), trial(16, failed(status))])
    assert (ledger.misfit(searched()), ledger.next_batch(searched(), 64)) == (None, 10)
    alone = Ledger.of([trial(1, failed(status, "too much"))])
    assert (alone.misfit(searched()), alone.batch(searched())) == (failed(status, "too much"), None)
    if status in MONOTONIC:
        assert alone.next_batch(searched(), 64) is None


# so few that a job is often told twice
CELLS = [cell(N, B=B, chunk=chunk) for N in (64, 256) for B, chunk in ((1, 4), (2, 8))]
OUTCOMES = st.sampled_from([warm(3), warm(5), Measured(), *map(failed, Status)])
PHASES = [phase for phase in Pass if phase is not Pass.FIT]
JOBS = st.sampled_from(CELLS), OUTCOMES, st.sampled_from(PHASES), st.integers(0, 2), st.integers(0, 2)
# a number of rows is tried once
TRIALS = st.lists(
    st.builds(record, of=st.sampled_from(CELLS), outcome=OUTCOMES, phase=st.just(Pass.FIT), B=st.integers(1, 8)),
    unique_by=lambda r: (r.job.cell.key, r.job.B),
    max_size=8,
)


def decisions(ledger: Ledger) -> list[object]:
    """All that an executor asks of a ledger."""
    per_cell = [
        (ledger.failed(c), ledger.measured(c), ledger.checked(c), ledger.warmup(c), bool(ledger.hopeless(c))) for c in CELLS
    ]
    found = [(ledger.batch(c), ledger.next_batch(c, 64), ledger.misfit(c)) for c in CELLS]
    return [*per_cell, *found, *(ledger.finished(c, phase, r) for c in CELLS for phase in Pass for r in range(3))]


@settings(deadline=None)
@given(st.data(), st.lists(st.builds(record, *JOBS), max_size=12), TRIALS)
def test_neither_order_nor_repetition_matters(data: st.DataObject, records: list[Record], trials: list[Record]) -> None:
    records = [*records, *trials]
    shuffled = data.draw(st.permutations([*records, *records]))
    assert decisions(Ledger.of(shuffled)) == decisions(Ledger.of(records))


def test_a_bundle_holds_the_methods_of_one_shape_and_small_lengths_come_first() -> None:
    cells = [cell(N, method=m, workload=w) for w in ("forward_backward", "forward") for N in (1024, 64, 512) for m in "ab"]
    found = [[(c.problem.N, c.workload.value, c.method) for c in bundle.cells] for bundle in bundles(cells)]
    assert found == [[(N, w, m) for m in "ab"] for N in (64, 512, 1024) for w in ("forward", "forward_backward")]
    # where the batch is searched for, a bundle of their own
    assert sorted(len(bundle.cells) for bundle in bundles([cell(method="a"), searched(), cell(method="b")])) == [1, 2]


def test_flops_of_longer_cells_follow_from_the_two_that_were_counted() -> None:
    checks = [(100, 1, 100.0), (300, 2, 900.0)]
    counted = [record(cell(N, B=B, H=2), Measured(facts={"flops": flops * B * 2}), Pass.CHECK) for N, B, flops in checks]
    ledger = Ledger.of(counted)
    assert ledger.counted_flops(cell(300)) == pytest.approx(900)
    assert ledger.counted_flops(cell(1300)) == pytest.approx(900 + 4 * 1000)
    assert ledger.counted_flops(cell(200)) == 0, "shorter than the longer check: the method may do less than in proportion"
    assert ledger.counted_flops(cell(1300, workload="decode")) == 0
    assert Ledger.of(counted[:1]).counted_flops(cell(1300)) == 0


def search(truth: int, most: int, known: dict[int, bool] | None = None) -> dict[int, bool]:
    """All trials, where whatever is at most `truth` fits; no number is tried twice."""
    fits = dict(known or {})
    while (following := next_trial(fits, most)) is not None:
        assert following not in fits
        assert 1 <= following <= most
        fits[following] = following <= truth
    return fits


@given(st.integers(1, 2**20), st.data())
def test_the_largest_is_found_to_a_sixteenth_in_few_trials_also_from_what_is_known(most: int, data: st.DataObject) -> None:
    truth = data.draw(st.integers(0, most))
    fits = search(truth, most)
    assert largest(fits) <= truth
    assert truth - largest(fits) < max(1, largest(fits) / 16)
    # by powers of four up to the first that is too large; from a gap of three times the last to a sixteenth of it
    assert len(fits) <= log2(most) / 2 + 2 + 6
    known = dict(list(fits.items())[: data.draw(st.integers(0, len(fits)))])
    assert search(truth, most, known) == fits


def test_the_largest_that_is_ever_tried_takes_nine_trials_where_all_fit_and_one_where_none_does() -> None:
    everything = search(2**30, MOST_ROWS)
    assert list(everything) == [*(4**i for i in range(8)), MOST_ROWS]
    assert largest(everything) == MOST_ROWS == 65_535
    for most in (1, 2, 16, 2**16):
        assert search(0, most) == {1: False}
    assert largest({1: False}) == 0


@given(st.dictionaries(st.integers(1, 1000), st.booleans()))
def test_whatever_was_seen_the_search_ends_and_the_largest_that_fit_counts(fits: dict[int, bool]) -> None:
    assert largest(search(500, 1000, fits)) >= max((n for n, fit in fits.items() if fit), default=0)
