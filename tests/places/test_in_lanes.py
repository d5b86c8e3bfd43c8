"""Lanes: they measure at the same time, each bundle in one of them, and a lane that is lost loses nothing but time."""

from collections import defaultdict, deque
from contextlib import suppress
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbench.places.in_lanes import NoPlaceError, carry_out_in_lanes
from attnbench.schedule.cells import CellJobs
from attnbench.schedule.ledger import Ledger
from attnbench.schedule.rounds import Rounds, bundles
from attnbench.schema.errand import Pass
from attnbench.schema.outcome import Failed, Status
from attnbench.schema.record import Record
from attnbench.session.lanes import portions
from attnbench.worker.portion import ALL
from tests.places.test_place import CHECKS, INFO, Head, end_as_undisturbed, final

BUNDLE = {cell.key: bundle.number for bundle in bundles(INFO.cells) for cell in bundle.cells}


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
    heads = [Head(), Head(last=4)]
    records = [record for _, record in carry_out_in_lanes(shared([], 2), heads)]
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


def test_an_empty_word_names_no_devices() -> None:
    assert portions("") == portions(()) == (ALL,)
