"""Where a cell stands under the roof of its run."""

import pytest

from attnbench.analyze.cells import OK, CellSummary
from attnbench.analyze.roofline import Placed, placed
from tests.analyze.conftest import known
from tests.analyze.test_quantities import CELL, COST, info


def at(seconds: float = 1.0, **cost: float) -> Placed:
    found = known(
        placed(
            CellSummary(CELL, OK, medians={0: seconds}),
            info().model_copy(update={"costs": {CELL.key: COST.model_copy(update=cost)}}),
        )
    )
    return found


def test_a_cell_stands_where_its_executed_flops_and_its_bytes_put_it() -> None:
    assert (at(0.05).intensity, at(0.05).flops_per_second) == pytest.approx((10.0, 2e10))


def test_what_is_faster_than_its_roof_is_above_and_says_why() -> None:
    # 1e9 FLOPs take 20 ms, 1e8 bytes 10 ms
    assert (at(0.05).above, at(0.05).warning) == (False, "")
    assert "an error of measurement" in at(0.01).warning
    # 1e9 bytes take 100 ms, were they not in cache
    assert "stayed in cache" in at(0.05, traffic_bytes=1e9).warning


def test_a_batch_that_was_found_does_as_much_more_as_it_is_larger() -> None:
    found = known(placed(CellSummary(CELL, OK, medians={0: 0.05}, facts={"B": 6}), info()))
    assert (found.intensity, found.flops_per_second, found.floor_seconds) == pytest.approx((10.0, 6e10, 0.06))


def test_without_a_cost_a_roof_or_a_time_there_is_no_place() -> None:
    timed = CellSummary(CELL, OK, medians={0: 0.05})
    bare = info().surroundings.model_copy(update={"roof": {}})
    assert placed(timed, info().model_copy(update={"costs": {}})) is None
    assert placed(timed, info().model_copy(update={"surroundings": bare})) is None
    assert placed(CellSummary(CELL, "oom_host"), info()) is None
