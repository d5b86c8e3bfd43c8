"""What the trials of a search come to: the largest that fits, what ended it, and whether it came to its end."""

from functools import partial

import pytest

from attnbench.analyze.limits import Limit, limits, precise, search_of
from attnbench.schema.errand import Job, Pass
from attnbench.schema.outcome import Counter, Failed, Measured, Status
from attnbench.schema.record import Record
from tests.analyze.conftest import writer

MOST = 2**16
OOM = Status.OOM_HOST


def trial(N: int, status: Status | None = None, method: str = "a") -> Record:
    cell = writer.cell(method, N)
    outcome = Measured(facts={"B": 1, "seconds": 0.25}) if status is None else Failed(status=status, reason=f"why at {N}")
    return writer.record(Job(cell=cell, phase=Pass.FIT, B=1), outcome)


def of_a(*records: Record, most: int = MOST) -> Limit:
    (found,) = limits([writer.cell("a", 512)], records, most)
    return found


def test_a_search_is_named_by_all_but_the_length_unless_the_batch_is_what_is_searched_for() -> None:
    cell = partial(writer.cell, "a")
    assert search_of(cell(512)) == search_of(cell(4096))
    others = [cell(512), cell(512, B=2), writer.cell("b", 512), cell(512, causal=True)]
    assert len({search_of(each) for each in others}) == 4
    assert search_of(writer.largest("a", 512)) != search_of(writer.largest("a", 1024))


def test_the_largest_that_fits_counts_with_what_ended_it_the_time_of_a_call_and_its_memory() -> None:
    peaks = [writer.weighed(writer.cell("a", N), host_rss_peak=Counter(bytes=N, source="VmHWM")) for N in (512, 1024)]
    trials = [trial(512), trial(2048, Status.BUDGET), trial(1024), trial(1088, OOM)]
    found = of_a(*trials, *peaks)
    assert (found.value, found.bound_at, found.finished) == (1024, 1088, True)
    assert found.bound == Failed(status=OOM, reason="why at 1088")
    assert (found.summary.cell.problem.N, found.summary.ok, found.seconds) == (1024, True, 0.25)
    assert found.summary.memory.bytes("host_rss_peak") == 1024
    failed = writer.failed(writer.cell("a", 1024), OOM, "full", phase=Pass.MEMORY)
    assert of_a(*trials, failed).summary.memory.reason == "oom_host: full"
    # a crash below a length that fits does not end the search
    found = of_a(trial(512, Status.CRASHED), *trials[2:])
    assert (found.value, found.bound_at) == (1024, 1088)


@pytest.mark.parametrize(
    ("status", "most", "value", "is_bound", "finished"),
    [
        pytest.param(None, 1024, 1024, False, True, id="it reached its limit"),
        pytest.param(None, MOST, 1024, False, False, id="it was cut"),
        pytest.param(OOM, MOST, 512, True, False, id="cut within a bracket"),
        pytest.param(Status.INTERRUPTED, MOST, 512, False, False, id="cut within a trial"),
    ],
)
def test_a_search_that_was_cut_says_so_and_one_that_reached_its_limit_is_finished_without_a_bound(
    status: Status | None, most: int, value: int, is_bound: bool, finished: bool
) -> None:
    found = of_a(trial(512), trial(1024, status), most=most)
    assert (found.value, found.bound is not None, found.finished) == (value, is_bound, finished)


def test_where_nothing_fits_or_was_tried_the_reason_stands() -> None:
    crashed = of_a(trial(512, Status.CRASHED))
    assert (crashed.value, crashed.summary.status, crashed.summary.reason) == (0, "crashed", "why at 512")
    assert (crashed.bound_at, crashed.finished) == (512, True)
    noted = of_a(writer.failed(writer.cell("a", 512), Status.UNSUPPORTED, "only float64"))
    assert (noted.value, noted.summary.status, noted.summary.reason) == (0, "unsupported", "only float64")
    assert (noted.bound_at, noted.finished) == (None, True)
    check = writer.record(Job(cell=writer.cell("a", 64), phase=Pass.CHECK), Measured())
    for record in (trial(512, method="b"), check):
        nothing = of_a(record)
        assert (nothing.value, nothing.summary.status, nothing.finished) == (0, "not_run", False)


def test_a_largest_batch_is_found_for_each_length() -> None:
    first, second = (writer.largest("a", N) for N in (512, 1024))
    fits = [writer.trial(first, 16), writer.trial(first, 17, OOM)]
    fails = [writer.trial(second, 1, OOM), writer.failed(second, OOM, "not even one")]
    short, long = limits([first, second], fits + fails, MOST)
    assert (short.value, short.bound_at, short.summary.B) == (16, 17, 16)
    assert (long.value, long.summary.status, long.finished) == (0, "oom_host", True)


@pytest.mark.parametrize(("good", "bad", "known"), [(1024, 1088, True), (1024, 1089, False), (3, 4, True), (3, 5, False)])
def test_one_part_in_sixteen_is_near_enough(good: int, bad: int, known: bool) -> None:
    assert precise(good, bad) is known
