"""The formulas agree with the algorithms, and the predicted peak with what torch allocates."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from attnbench import Problem, build
from attnbench.api import Workload, dense_flops
from attnbench.measure.profiler_memory import torch_profiler_peak
from attnbench.registry import load

FORWARD, BOTH = Workload.FORWARD, Workload.FORWARD_BACKWARD
SIZES: list[tuple[str, dict[str, Any]]] = [
    ("softmax.naive", {"N": 512}),
    ("softmax.naive", {"N": 512, "causal": True, "kv_heads": 2}),
    ("softmax.sdpa", {"N": 256, "B": 64}),
    ("softmax.sdpa", {"N": 512, "M": 32, "causal": True}),
    ("linear.full", {"N": 2048}),
    ("linear.full", {"N": 8192, "dtype": "float16", "kv_heads": 1}),
    ("linear.chunked", {"N": 2048, "causal": True}),
    ("linear.chunked", {"N": 2048, "causal": True, "dtype": "bfloat16"}),
    ("lsh.reformer_pytorch", {"N": 1024, "H": 2}),
    ("lsh.reformer_pytorch", {"N": 1024, "H": 2, "causal": True}),
    ("lsh.reformer", {"N": 1024, "H": 2}),
    ("lsh.reformer", {"N": 1000, "causal": True, "M": 32}),
    ("lsh.reformer", {"N": 2048, "dtype": "bfloat16"}),
    *((f"sparse.{name}", {"N": 4096, "causal": True}) for name in ("strided", "fixed", "window", "longformer")),
]


@pytest.fixture
def one_thread() -> Iterator[None]:
    """The fused kernels' scratch, which no formula has, grows with the threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("workload", [FORWARD, BOTH])
@pytest.mark.parametrize(("name", "shape"), SIZES, ids=str)
def test_the_predicted_peak_is_what_torch_allocates(
    name: str, shape: dict[str, Any], workload: Workload, inputs_of: Any, gradient_of: Any, evaluate: Any
) -> None:
    method = build(name, Problem(**{"B": 1, "H": 4, "D": 64, **shape}))
    inputs, g = inputs_of(method), gradient_of(method)

    def call() -> object:
        if workload is BOTH:
            return evaluate(method, "forward", inputs, g)
        with torch.no_grad():
            return method(*inputs)

    call()
    predicted = type(method).cost(method.problem, {}, workload).peak_bytes
    assert torch_profiler_peak(call).bytes == pytest.approx(predicted, rel=0.1)


def flops(
    name: str, workload: Workload = FORWARD, params: dict[str, Any] | None = None, **shape: Any
) -> tuple[float, float, float]:
    cost = load(name).cost(Problem(**{"B": 2, "H": 4, "N": 1024, "D": 64, **shape}), params or {}, workload)
    return cost.nominal_flops, cost.exact_flops, cost.executed_flops


@pytest.mark.parametrize(
    ("name", "causal"),
    [
        ("softmax.naive", True),
        ("softmax.sdpa", True),
        ("linear.full", False),
        ("linear.chunked", True),
        ("lsh.reformer_pytorch", True),
    ],
)
def test_all_methods_share_one_nominal_count(name: str, causal: bool) -> None:
    dense = dense_flops(Problem(B=2, H=4, N=1024, D=64, causal=causal))
    assert flops(name, causal=causal)[0] == dense
    assert flops(name, BOTH, causal=causal)[0] == 3 * dense


def test_no_method_executes_less_than_its_definition_needs() -> None:
    for name, causal in [("softmax.naive", True), ("softmax.sdpa", True), ("linear.full", False), ("linear.chunked", True)]:
        for workload in (FORWARD, BOTH):
            _, exact, executed = flops(name, workload, causal=causal)
            assert executed >= exact, name


def test_naive_executes_the_square_and_fused_half_of_it() -> None:
    square = 2 * 2 * 4 * 1024**2 * 128
    assert flops("softmax.naive", causal=True)[2] == square
    assert flops("softmax.sdpa", causal=True)[2] == pytest.approx(square / 2, rel=0.01)
    assert flops("softmax.sdpa", BOTH)[2] == 3.5 * square
    assert flops("softmax.naive", BOTH)[2] == 3 * square


def test_linear_work_grows_with_the_length_and_softmax_work_with_its_square() -> None:
    assert flops("linear.chunked", causal=True, N=4096)[2] == 4 * flops("linear.chunked", causal=True)[2]
    assert flops("softmax.naive", N=4096)[2] == 16 * flops("softmax.naive")[2]


def test_the_chunked_count_is_that_of_its_products() -> None:
    # D = 64, W = 72, L = 64: scores and values within a chunk, then the state read and written
    assert flops("linear.chunked", causal=True)[2] == 2 * 2 * 4 * 1024 * (64 * (64 + 72) + 2 * 64 * 72)
    # the tail of 36 tokens is a chunk of its own
    tail = flops("linear.chunked", causal=True, N=100)[2]
    assert tail == 2 * 2 * 4 * ((64**2 + 36**2) * (64 + 72) + 100 * 2 * 64 * 72)


def test_hashing_is_counted_and_grows_quadratically() -> None:
    attention = 2 * 4 * 1024 * 4 * 4 * 64 * 128
    hashing = 2 * 4 * 1024 * 4 * 64 * 1024 / 64
    assert flops("lsh.reformer_pytorch")[2] == attention + hashing
    assert flops("lsh.reformer_pytorch", BOTH)[2] == 3 * attention + hashing


def test_one_tensor_for_queries_and_keys_is_moved_once() -> None:
    shape, cost = Problem(B=2, H=4, N=1024, D=64), load("lsh.reformer_pytorch").cost
    assert cost(shape, {}, FORWARD).traffic_bytes == 3 * 2 * 4 * 1024 * 64 * 4
    assert cost(shape, {}, BOTH).traffic_bytes == 8 * 2 * 4 * 1024 * 64 * 4
