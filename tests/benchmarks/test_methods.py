"""A handful of methods at small lengths, half a minute on a CPU: `pytest tests/benchmarks -n 0 --benchmark-enable`."""

from typing import Any

import pytest

from attnbench.pytest_plugin.fixture import AttentionBenchmark

METHODS: dict[str, dict[str, Any]] = {
    "softmax.naive": {},
    "softmax.sdpa": {},
    "linear.chunked": {"chunk": 64},
    "sparse.strided": {},
    "lsh.reformer": {"rounds": 1},
}


@pytest.mark.parametrize("N", [128, 512])
@pytest.mark.parametrize("method", METHODS)
def test_forward(attention_benchmark: AttentionBenchmark, method: str, N: int) -> None:
    attention_benchmark(method, N=N, H=2, causal=True, device="cpu", **METHODS[method])


@pytest.mark.parametrize("method", METHODS)
def test_forward_and_backward(attention_benchmark: AttentionBenchmark, method: str) -> None:
    attention_benchmark(method, N=256, H=2, causal=True, workload="forward_backward", device="cpu", **METHODS[method])


@pytest.mark.parametrize("method", ["softmax.sdpa", "linear.chunked"])
def test_one_more_token(attention_benchmark: AttentionBenchmark, method: str) -> None:
    attention_benchmark(method, N=512, H=2, causal=True, workload="decode", device="cpu")
