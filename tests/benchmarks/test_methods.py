"""A handful of methods at small lengths, half a minute on a CPU: `pytest tests/benchmarks -n 0 --benchmark-enable`.

With `-m cuda` on a GPU, in device time.
"""

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
CPU: dict[str, Any] = {"H": 2, "causal": True, "device": "cpu"}
GPU: dict[str, Any] = {"dtype": "bfloat16", "causal": True, "device": "cuda"}


@pytest.mark.parametrize(("workload", "N"), [("forward", 128), ("forward", 512), ("forward_backward", 256)])
@pytest.mark.parametrize("method", METHODS)
def test_a_method(attention_benchmark: AttentionBenchmark, method: str, workload: str, N: int) -> None:
    attention_benchmark(method, N=N, workload=workload, **CPU, **METHODS[method])


@pytest.mark.parametrize("method", ["softmax.sdpa", "linear.chunked"])
def test_one_more_token(attention_benchmark: AttentionBenchmark, method: str) -> None:
    attention_benchmark(method, N=512, workload="decode", **CPU)


@pytest.mark.cuda
@pytest.mark.parametrize(("workload", "N"), [("forward", 1024), ("forward", 4096), ("forward_backward", 2048)])
@pytest.mark.parametrize("method", ["softmax.sdpa", "linear.chunked", "linear.triton", "linear.cuda", "sparse.strided_triton"])
def test_a_method_on_a_gpu(attention_benchmark: AttentionBenchmark, method: str, workload: str, N: int) -> None:
    attention_benchmark(method, N=N, workload=workload, **GPU)


@pytest.mark.cuda
@pytest.mark.parametrize("clock", ["cold", "graph", "wall"])
def test_every_clock(attention_benchmark: AttentionBenchmark, clock: str) -> None:
    attention_benchmark("softmax.sdpa", N=1024, clock=clock, **GPU)
