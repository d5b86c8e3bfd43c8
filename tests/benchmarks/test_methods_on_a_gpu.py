"""The same on a GPU, in device time: `pytest tests/benchmarks -m cuda -n 0 --benchmark-enable`."""

import pytest

from attnbench.pytest_plugin.fixture import AttentionBenchmark

METHODS = ["softmax.sdpa", "linear.chunked", "linear.triton", "linear.cuda", "sparse.strided_triton"]


@pytest.mark.cuda
@pytest.mark.parametrize("N", [1024, 4096])
@pytest.mark.parametrize("method", METHODS)
def test_forward(attention_benchmark: AttentionBenchmark, method: str, N: int) -> None:
    attention_benchmark(method, N=N, dtype="bfloat16", causal=True, device="cuda")


@pytest.mark.cuda
@pytest.mark.parametrize("method", METHODS)
def test_forward_and_backward(attention_benchmark: AttentionBenchmark, method: str) -> None:
    attention_benchmark(method, N=2048, dtype="bfloat16", causal=True, device="cuda", workload="forward_backward")


@pytest.mark.cuda
@pytest.mark.parametrize("clock", ["cold", "graph", "wall"])
def test_every_clock(attention_benchmark: AttentionBenchmark, clock: str) -> None:
    attention_benchmark("softmax.sdpa", N=1024, dtype="bfloat16", causal=True, device="cuda", clock=clock)
