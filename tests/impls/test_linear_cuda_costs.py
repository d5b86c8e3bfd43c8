"""What the CUDA kernels say of themselves: their work, their memory, their limits."""

from typing import Any

import pytest

from attnbench import Problem
from attnbench.api import Cell, Workload
from attnbench.registry import load


def test_the_work_is_that_of_the_recurrence_and_once_more_where_segments_are_summed_first() -> None:
    def executed(workload: Workload, **shape: Any) -> tuple[float, float]:
        cost = load("linear.cuda").cost(Problem(causal=True, **shape), {}, workload)
        return cost.exact_flops, cost.executed_flops

    many: dict[str, Any] = {"B": 64, "H": 8, "N": 1024, "D": 64}
    few: dict[str, Any] = {"B": 1, "H": 8, "N": 65536, "D": 64}
    tokens = 64 * 8 * 1024
    assert executed(Workload.FORWARD, **many) == (tokens * 4 * 64**2, tokens * (4 * 64**2 + 2 * 64))
    assert executed(Workload.FORWARD, **few) == (tokens * 4 * 64**2, tokens * (6 * 64**2 + 2 * 64))
    assert executed(Workload.FORWARD_BACKWARD, **many) == (tokens * 12 * 64**2, tokens * (16 * 64**2 + 4 * 64))


def test_it_adds_to_outputs_and_gradients_only_what_it_says() -> None:
    def peak(workload: Workload, **shape: Any) -> float:
        return float(load("linear.cuda").cost(Problem(causal=True, D=64, **shape), {}, workload).peak_bytes)

    rows, tensor = 64 * 8 * 1024, 64 * 8 * 1024 * 64 * 4
    assert peak(Workload.FORWARD, B=64, H=8, N=1024) == tensor + 4 * rows
    assert peak(Workload.FORWARD_BACKWARD, B=64, H=8, N=1024) == 4 * tensor + 2 * 4 * rows
    # the states of segments do not grow with the length
    long, longer = (peak(Workload.FORWARD, B=1, H=8, N=N) - N * 8 * (64 * 4 + 4) for N in (2**17, 2**20))
    assert long == longer == 512 * 4 * 64 * 65


def test_its_limits_are_said_in_words() -> None:
    def reason(device: str = "cuda", **shape: Any) -> str | None:
        problem = Problem(**{"N": 64, "causal": True, **shape})
        return load("linear.cuda").refusal(Cell(method="linear.cuda", problem=problem, device=device))

    assert reason() is None
    assert reason(padding=0.5) is None
    assert "run on CUDA devices" in str(reason(device="cpu"))
    assert "causal" in str(reason(causal=False))
    assert "kv_heads must equal H" in str(reason(kv_heads=2))
    assert "float32" in str(reason(dtype="float64"))
    assert "not D=64 and M=129" in str(reason(M=129))
    with pytest.raises(ValueError, match="feature_map='cosine'"):
        load("linear.cuda").cost(Problem(N=64, causal=True), {"feature_map": "cosine"}, Workload.FORWARD)
