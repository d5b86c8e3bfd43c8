"""A time below what its products and its traffic take at least is not believed."""

from typing import Any

import pytest

from attnbench.measure import roof
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import Job, Limits, Roof
from attnbench.schema.outcome import Status
from attnbench.schema.problem import DType, Problem
from attnbench.workloads.holding import WrongError
from attnbench.workloads.impossible import refuse_impossible

ROOF = Roof(flops_per_second=1e12, bytes_per_second=1e10, cached_bytes_per_second=1e11)


def job(flops: float, workload: Workload = Workload.FORWARD, **fields: Any) -> Job:
    cell = Cell(method="m", problem=Problem(N=64, H=1, D=64, **fields), workload=workload, device="cpu")
    return Job(cell=cell, limits=Limits(flops=flops, roof=ROOF))


@pytest.fixture(autouse=True)
def measured_again(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which ceilings were measured again; as they were before."""
    asked: list[str] = []

    def measure(_: str, ceiling: str) -> tuple[float, float, float]:
        asked.append(ceiling)
        return 1e12, 1e10, 1e11

    monkeypatch.setattr(roof, "measure", measure)
    return asked


def test_less_than_half_of_what_products_take_is_impossible(measured_again: list[str]) -> None:
    refuse_impossible(job(1e9), [0.6e-3])
    assert measured_again == []
    with pytest.raises(WrongError, match=r"^1 GFLOP and 64.0 KiB take 1.00 ms at least$") as error:
        refuse_impossible(job(1e9), [0.1e-3, 0.4e-3, 0.9e-3])
    assert error.value.status is Status.IMPOSSIBLE
    assert measured_again == ["float32"]


def test_traffic_counts_at_the_speed_of_the_cache() -> None:
    refuse_impossible(job(0), [0.4e-6])
    with pytest.raises(WrongError, match="take 655 ns at least"):
        refuse_impossible(job(0), [0.3e-6])


def test_a_roof_that_is_higher_the_second_time_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roof, "measure", lambda *_: (5e12, 1e10, 1e11))
    refuse_impossible(job(1e9), [0.4e-3])


def test_in_half_precision_the_roof_of_float32_counts_too(measured_again: list[str]) -> None:
    with pytest.raises(WrongError):
        refuse_impossible(job(1e9, dtype=DType.BFLOAT16), [0.1e-3])
    assert measured_again == ["bfloat16", "float32", "float32, matmul high"]


def test_without_a_roof_nothing_is_refused() -> None:
    unknown = job(1e9)
    refuse_impossible(unknown.model_copy(update={"limits": Limits(flops=1e9)}), [1e-9])
