import pytest

from attnbench.analyze.cells import OK, CellSummary
from attnbench.analyze.intensity import Placed, placed
from attnbench.schema.cell import Cell
from attnbench.schema.cost import Cost
from attnbench.schema.errand import Roof, Surroundings
from attnbench.schema.problem import Problem
from attnbench.schema.run import RunInfo
from attnbench.schema.suite import Axes, Method, Suite

CELL = Cell(method="m.x", problem=Problem(N=64, B=2))
COST = Cost(nominal_flops=4e9, exact_flops=2e9, executed_flops=1e9, traffic_bytes=1e8, peak_bytes=0)


def run(cost: Cost | None = COST, roof: Roof | None = Roof(flops_per_second=5e10, bytes_per_second=1e10)) -> RunInfo:  # noqa: B008
    return RunInfo(
        id="x", command="", started="", environment={}, environment_digest="e", methods={}, cells=(CELL,),
        suite=Suite(name="t", axes=Axes(N=(64,)), methods=(Method(name="m.x"),)),
        surroundings=Surroundings(device="cpu", facts={}, memory_bytes=1, roof={"float32": roof} if roof else {}),
        costs={CELL.key: cost} if cost else {},
    )  # fmt: skip


def summary(seconds: float, **more: object) -> CellSummary:
    return CellSummary(cell=CELL, status=OK, medians={0: seconds}, **more)  # type: ignore[arg-type]


def found(seconds: float, cost: Cost = COST) -> Placed:
    at = placed(summary(seconds), run(cost))
    assert at is not None
    return at


def test_a_cell_stands_where_its_executed_flops_and_its_bytes_put_it() -> None:
    at = found(0.05)
    assert (at.intensity, at.flops_per_second) == pytest.approx((10.0, 2e10))


def test_the_roof_is_that_of_the_copy_or_of_the_product_whichever_is_lower() -> None:
    assert found(0.05, COST.model_copy(update={"traffic_bytes": 1e9})).roof == pytest.approx(1e10)
    assert found(0.05, COST.model_copy(update={"traffic_bytes": 1e7})).roof == pytest.approx(5e10)


def test_what_is_faster_than_its_roof_is_above() -> None:
    assert found(0.05).above is False
    assert found(0.01).above is True


def test_a_batch_that_was_found_does_as_much_more_as_it_is_larger() -> None:
    at = placed(summary(0.05, facts={"B": 6}), run())
    assert at is not None
    assert (at.intensity, at.flops_per_second) == pytest.approx((10.0, 6e10))


@pytest.mark.parametrize(
    "info",
    [
        run(cost=None),
        run(roof=None),
        run(COST.model_copy(update={"executed_flops": 0})),
        run(COST.model_copy(update={"traffic_bytes": 0})),
    ],
)
def test_without_a_cost_or_a_roof_there_is_no_place(info: RunInfo) -> None:
    assert placed(summary(0.05), info) is None


def test_a_cell_without_a_time_has_no_place() -> None:
    assert placed(CellSummary(cell=CELL, status="oom_host"), run()) is None
