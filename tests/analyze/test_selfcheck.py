"""From the records of a selfcheck to its figures."""

import math
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from attnbench.analyze.power import Hits
from attnbench.analyze.selfcheck import Calibration, calibrate
from attnbench.schema.errand import Pass
from attnbench.schema.outcome import Status
from attnbench.schema.record import Record
from attnbench.schema.selfcheck import Place, Selfcheck

if TYPE_CHECKING:
    from tests.analyze.conftest import Writer


def records(
    writer: "Writer",
    plan: Selfcheck,
    seed: int = 0,
    spread: float = 0.02,
    drift: float = 0.0,
    between: Sequence[float] = (0.0, 0.0),
    flags: tuple[str, ...] = (),
) -> list[Record]:
    """One sample a process; `between` is the logarithm by which each side is off."""
    noise = random.Random(seed)
    found = []
    for number in range(plan.processes):
        place = plan.place(number)
        log = noise.gauss(0, spread) + drift * place.replicate + between[place.side]
        found.append(writer.timed(plan.cell(number), [2e-3 * math.exp(log)], number, flags=flags if number % 4 == 0 else ()))
    return found


def planned(writer: "Writer", verdicts: int = 24, replicates: int = 10, injected: float = 0.0) -> Selfcheck:
    cell, slow = writer.cell(), writer.cell("slow")
    return Selfcheck(sides=(cell, slow if injected else cell), verdicts=verdicts, replicates=replicates, injected=injected)


def test_both_names_of_one_method_are_told_apart_by_their_numbers_alone(writer: "Writer") -> None:
    plan = planned(writer)
    found = calibrate(plan, records(writer, plan, between=(0.0, 0.2)), 0.05)
    assert found.paired[-1].slower == Hits(24, 24)
    assert found.unpaired[-1].slower == Hits(24, 24)
    assert found.overall is not None
    assert found.overall.value == pytest.approx(math.exp(0.2), rel=0.006)


def test_where_nothing_differs_little_is_found(writer: "Writer") -> None:
    plan = planned(writer)
    found = calibrate(plan, records(writer, plan), 0.05)
    assert found.paired[-1].alarms == found.unpaired[-1].alarms == found.together == Hits(0, 24)
    assert found.overall is not None
    assert found.overall.interval is not None
    assert found.overall.interval.low < 1 < found.overall.interval.high
    assert found.seconds == pytest.approx(2e-3, rel=0.01)
    assert found.processes == pytest.approx(0.02, rel=0.1)
    assert (found.lost, found.reason) == (0, "")


def test_rounds_are_cut_into_verdicts_of_fewer_replicates_that_share_no_process(writer: "Writer") -> None:
    plan = planned(writer, verdicts=20)
    found = calibrate(plan, records(writer, plan), 0.05)
    assert [(power.replicates, power.slower.of) for power in found.paired] == [(3, 60), (5, 40), (10, 20)]


@pytest.mark.parametrize(("replicates", "counts"), [(2, [2]), (3, [3]), (4, [3, 4]), (7, [3, 5, 7]), (25, [3, 5, 10, 20, 25])])
def test_counts_below_what_was_planned_are_shown_too(writer: "Writer", replicates: int, counts: list[int]) -> None:
    plan = planned(writer, verdicts=2, replicates=replicates)
    assert [power.replicates for power in calibrate(plan, records(writer, plan), 0.05).unpaired] == counts


def test_what_falls_on_both_sides_of_a_round_is_seen_by_unpaired_verdicts_only(writer: "Writer") -> None:
    plan = planned(writer)
    found = calibrate(plan, records(writer, plan, drift=0.03), 0.05)
    paired, unpaired = found.paired[-1].half_width, found.unpaired[-1].half_width
    assert paired is not None
    assert unpaired is not None
    assert unpaired > 3 * paired
    assert found.rounds == pytest.approx(math.expm1(9 * 0.03), abs=0.02)
    assert found.processes == pytest.approx(0.02, rel=0.1), "drift is no difference between processes"


def test_a_process_that_failed_costs_its_verdict_and_is_said(writer: "Writer") -> None:
    plan = planned(writer, verdicts=20)
    lost = plan.number(Place(7, 1, 6))
    every = records(writer, plan)
    every[lost] = writer.failed(plan.cell(lost), Status.TIMEOUT, "no answer within 62 s", lost)
    found = calibrate(plan, every, 0.05)
    assert [power.slower.of for power in found.paired] == [59, 39, 19]
    assert (found.lost, found.reason) == (1, "timeout: no answer within 62 s")
    assert found.measured == plan.processes - 1


def test_what_is_unfinished_gives_what_there_is(writer: "Writer") -> None:
    plan = planned(writer, verdicts=20)
    half = [record for record in records(writer, plan) if plan.place(record.job.replicate).replicate < 6]
    found = calibrate(plan, half, 0.05)
    assert [power.slower.of for power in found.paired] == [40, 20, 0]
    assert found.lost == 20 * 2 * 4


def test_no_records_at_all_give_no_figures(writer: "Writer") -> None:
    found = calibrate(planned(writer), [], 0.05)
    assert found.measured == 0
    assert (found.seconds, found.processes, found.rounds, found.overall) == (None, None, None, None)
    assert found.floor == ()


def test_a_repeated_process_counts_by_its_last_attempt(writer: "Writer") -> None:
    plan = planned(writer, verdicts=2, replicates=2)
    every = records(writer, plan)
    again = writer.timed(plan.sides[0], [5.0], 0, attempt=1, flags=("throttled",))
    found = calibrate(plan, [*every, again], 0.05)
    assert found.flags == {"throttled": 1}
    assert found.seconds == pytest.approx(2e-3 * (5.0 / 2e-3) ** (1 / 8), rel=0.05)


def test_flags_are_counted_by_process(writer: "Writer") -> None:
    plan = planned(writer, verdicts=2, replicates=2)
    assert calibrate(plan, records(writer, plan, flags=("loaded", "noisy")), 0.05).flags == {"loaded": 2, "noisy": 2}


def test_a_check_is_no_process(writer: "Writer") -> None:
    plan = planned(writer, verdicts=2, replicates=2)
    check = writer.failed(writer.cell(N=64), Status.INCORRECT, "wrong", phase=Pass.CHECK)
    assert calibrate(plan, [check, *records(writer, plan)], 0.05).lost == 0


def floor_of(found: Calibration) -> dict[int, float]:
    return dict(found.floor)


def test_the_noise_floor_is_of_paired_verdicts_without_a_margin(writer: "Writer") -> None:
    plan = planned(writer, verdicts=120)
    found = floor_of(calibrate(plan, records(writer, plan, spread=0.03), 0.5))
    # 3.6 standard errors: what a t test at 9 degrees finds nine times in ten
    assert found[10] == pytest.approx(math.expm1(3.63 * 0.03 * math.sqrt(2 / 10)), rel=0.15)
    assert found[3] > found[5] > found[10]


def test_of_too_few_verdicts_there_is_no_noise_floor(writer: "Writer") -> None:
    plan = planned(writer, verdicts=40)
    assert set(floor_of(calibrate(plan, records(writer, plan), 0.05))) == {3}, "120 verdicts of 3, 80 of 5, 40 of 10"


def test_a_slow_down_made_on_purpose_is_counted_and_gives_no_noise_floor(writer: "Writer") -> None:
    plan = planned(writer, verdicts=120, replicates=5, injected=0.1)
    found = calibrate(plan, records(writer, plan, between=(0.0, math.log1p(0.1))), 0.05)
    assert found.paired[-1].slower.hits > 110
    assert found.floor == ()
    assert found.processes == pytest.approx(0.02, rel=0.1), "the slow-down is no spread"
