"""Pooled keys and values, pooled queries: blocks of any length, their gradients, and what it costs."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnbench import Problem, build
from attnbench.api import Cell, Workload, nominal_flops
from attnbench.measure.profiler_memory import torch_profiler_peak
from attnbench.registry import UnsupportedError, load

FORWARD, BOTH = Workload.FORWARD, Workload.FORWARD_BACKWARD
NAMES = ["pooling.key_value", "pooling.funnel"]


def problem(N: int, **shape: Any) -> Problem:
    return Problem(**{"B": 2, "H": 4, "N": N, "D": 8, "M": 5, "dtype": "float64", **shape})


@pytest.mark.parametrize("factor", [1, 2, 5])
@pytest.mark.parametrize("N", [1, 2, 63, 64, 257])
@pytest.mark.parametrize("name", NAMES)
def test_it_is_its_definition_with_its_gradients(
    name: str, N: int, factor: int, inputs_of: Any, gradient_of: Any, evaluate: Any
) -> None:
    method = build(name, problem(N, kv_heads=2), factor=factor)
    inputs, g = inputs_of(method), gradient_of(method)
    got, want = (evaluate(method, function, inputs, g) for function in ("forward", "reference"))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-10)


def naive_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """One query after the other: lists of [D], [D], [M]."""
    scores = torch.stack([q @ key for key in k]) / q.shape[0] ** 0.5
    return torch.stack([share * value for share, value in zip(scores.softmax(0), v, strict=True)]).sum(0)


def blocks(x: Tensor, factor: int) -> Tensor:
    return torch.stack([x[a : a + factor].mean(0) for a in range(0, len(x), factor)])


def test_the_definition_is_a_mean_over_each_block_and_softmax(inputs_of: Any) -> None:
    pooled, funnel = (build(name, problem(11, B=1, H=1), factor=4) for name in NAMES)
    q, k, v = inputs_of(pooled)
    rows = [x[0, 0] for x in (q, k, v)]
    want = torch.stack([naive_attention(row, blocks(rows[1], 4), blocks(rows[2], 4)) for row in rows[0]])
    torch.testing.assert_close(pooled.reference(q, k, v)[0, 0], want, rtol=0, atol=1e-12)
    want = torch.stack([naive_attention(blocks(rows[0], 4)[i // 4], rows[1], rows[2]) for i in range(11)])
    torch.testing.assert_close(funnel.reference(q, k, v)[0, 0], want, rtol=0, atol=1e-12)


@given(N=st.integers(1, 40), factor=st.integers(1, 50), kv_heads=st.sampled_from([1, 2, 4]))
@settings(max_examples=40, deadline=None)
@pytest.mark.parametrize("name", NAMES)
def test_any_length_and_factor_go_together(name: str, N: int, factor: int, kv_heads: int) -> None:
    method = build(name, problem(N, kv_heads=kv_heads), factor=factor)
    inputs = type(method).inputs(method.problem, torch.Generator().manual_seed(N))
    torch.testing.assert_close(method(*inputs), method.reference(*inputs), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_blocks_of_one_are_softmax_attention(name: str, inputs_of: Any) -> None:
    method = build(name, problem(37, kv_heads=2), factor=1)
    inputs = inputs_of(method)
    softmax = build("softmax.naive", method.problem)
    torch.testing.assert_close(method(*inputs), softmax(*inputs), rtol=0, atol=1e-12)


def test_tokens_that_are_alike_within_blocks_lose_nothing(inputs_of: Any) -> None:
    shape = problem(48)
    q, k, v = (x.detach() for x in inputs_of(build("softmax.naive", shape)))
    alike = [x[:, :, ::4].repeat_interleave(4, dim=2) for x in (q, k, v)]
    softmax = build("softmax.naive", shape)
    pooled, funnel = (build(name, shape, factor=4) for name in NAMES)
    torch.testing.assert_close(pooled(q, *alike[1:]), softmax(q, *alike[1:]), rtol=0, atol=1e-12)
    torch.testing.assert_close(funnel(alike[0], k, v), softmax(alike[0], k, v), rtol=0, atol=1e-12)


def test_one_block_of_keys_gives_the_mean_value(inputs_of: Any) -> None:
    method: Any = build("pooling.key_value", problem(9), factor=9)
    q, k, v = inputs_of(method)
    torch.testing.assert_close(method(q, k, v), v.mean(2, keepdim=True).expand(-1, -1, 9, -1), rtol=0, atol=1e-12)


def test_neighbours_share_one_output(inputs_of: Any) -> None:
    method = build("pooling.funnel", problem(10), factor=4)
    o = method(*inputs_of(method))
    for block in o.split(4, dim=2):
        assert torch.equal(block, block[:, :, :1].expand_as(block))


@pytest.mark.parametrize("lengths", [(37, 20), (8, 3), (0, 37)])
def test_hidden_keys_are_as_if_they_were_not_there(
    lengths: tuple[int, int], inputs_of: Any, gradient_of: Any, evaluate: Any
) -> None:
    method: Any = build("pooling.key_value", problem(37, kv_heads=2))
    inputs, g = inputs_of(method), gradient_of(method)
    mask = torch.arange(37) < torch.tensor(lengths)[:, None]
    q, k, v = inputs
    o = method(*inputs, key_mask=mask)
    for b, length in enumerate(lengths):
        alone = build("pooling.key_value", problem(37, B=1, kv_heads=2))
        if length:
            want = alone(q[b : b + 1], *(x[b : b + 1, :, :length] for x in (k, v)))
            torch.testing.assert_close(o[b : b + 1], want, rtol=0, atol=1e-12)
        else:
            assert (o[b] == 0).all()
    reference = method.reference(*inputs, key_mask=mask)
    torch.testing.assert_close(o, reference, rtol=0, atol=1e-10)
    got, want = (torch.autograd.grad(x, inputs, g) for x in (o, reference))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-10)


def test_a_mask_may_have_holes_and_what_it_hides_never_counts(inputs_of: Any) -> None:
    method: Any = build("pooling.key_value", problem(26))
    q, k, v = (x.detach() for x in inputs_of(method))
    mask = torch.rand(2, 26, generator=torch.Generator().manual_seed(5)) < 0.4
    o = method(q, k, v, key_mask=mask)
    torch.testing.assert_close(o, method.reference(q, k, v, key_mask=mask), rtol=0, atol=1e-10)
    for x in (k, v):
        x.masked_fill_(~mask[:, None, :, None], 1e30)
    assert torch.equal(method(q, k, v, key_mask=mask), o)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("name", NAMES)
def test_other_dtypes_are_near(name: str, dtype: str, inputs_of: Any) -> None:
    method = build(name, problem(63, dtype=dtype))
    inputs = [x.detach() for x in inputs_of(method)]
    want = method.reference(*(x.double() for x in inputs)).to(inputs[0].dtype)
    eps = 8 * torch.finfo(want.dtype).eps
    torch.testing.assert_close(method(*inputs), want, rtol=eps, atol=eps)


@pytest.mark.parametrize("name", NAMES)
def test_its_limits_and_mistakes_are_said_in_words(name: str) -> None:
    method = load(name)
    with pytest.raises(UnsupportedError, match="there is no causal form"):
        build(name, problem(8, causal=True))
    step = Cell(method=name, problem=problem(8, causal=True), workload=Workload.DECODE)
    assert method.refusal(step) == "it does not decode token by token"
    for factor in (0, -1, 2.0, True):
        with pytest.raises(ValueError, match="factor="):
            build(name, problem(8), factor=factor)
        with pytest.raises(ValueError, match="factor="):
            method.cost(problem(8), {"factor": factor}, FORWARD)
    with pytest.raises(TypeError, match="colour"):
        method.cost(problem(8), {"colour": 3}, FORWARD)


def test_funnel_takes_no_mask() -> None:
    assert load("pooling.funnel").refusal(Cell(method="x", problem=problem(8, padding=0.5))) is not None
    assert load("pooling.key_value").refusal(Cell(method="x", problem=problem(8, padding=0.5))) is None


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Scratch of the fused kernel grows with the threads; one thread's is in the formula."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("one_thread")
def test_a_block_that_is_longer_than_the_sequence_takes_no_more_memory(inputs_of: Any) -> None:
    peaks = []
    for factor in (512, 10**6):
        method = build("pooling.funnel", problem(512, dtype="float32"), factor=factor)
        call = partial(method, *(x.detach() for x in inputs_of(method)))
        call()
        cost = type(method).cost(method.problem, {"factor": factor}, FORWARD)
        peaks.append((torch_profiler_peak(call).bytes, cost.peak_bytes))
    assert peaks[0] == peaks[1]


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("workload", [FORWARD, BOTH])
@pytest.mark.parametrize(
    ("shape", "params"),
    [
        ({}, {}),
        ({"N": 2048, "B": 1}, {}),
        ({"N": 515}, {"factor": 3}),
        ({"M": 32, "kv_heads": 2}, {}),
        ({"M": 96}, {"factor": 8}),
        ({"dtype": "float64"}, {}),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", NAMES)
def test_the_predicted_peak_is_what_torch_allocates(
    name: str, shape: dict[str, Any], params: dict[str, Any], workload: Workload, inputs_of: Any, gradient_of: Any
) -> None:
    method = build(name, problem(**{"B": 2, "H": 4, "N": 512, "D": 64, "M": 64, "dtype": "float32", **shape}), **params)
    inputs, g = inputs_of(method), gradient_of(method)

    def call() -> object:
        if workload is BOTH:
            return torch.autograd.grad(method(*inputs), inputs, g)
        with torch.no_grad():
            return method(*inputs)

    call()
    predicted = type(method).cost(method.problem, params, workload).peak_bytes
    assert torch_profiler_peak(call).bytes == pytest.approx(predicted, rel=0.1)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("workload", [FORWARD, BOTH])
def test_the_predicted_peak_holds_with_padding(workload: Workload, inputs_of: Any, gradient_of: Any) -> None:
    method: Any = build("pooling.key_value", problem(512, D=64, M=64, dtype="float32", padding=0.5))
    inputs, g = inputs_of(method), gradient_of(method)
    mask = torch.arange(512) < torch.tensor(method.problem.lengths)[:, None]

    def call() -> object:
        if workload is BOTH:
            return torch.autograd.grad(method(*inputs, key_mask=mask), inputs, g)
        with torch.no_grad():
            return method(*inputs, key_mask=mask)

    call()
    predicted = type(method).cost(method.problem, {}, workload).peak_bytes
    assert torch_profiler_peak(call).bytes == pytest.approx(predicted, rel=0.1)


@pytest.mark.parametrize(("name", "factor"), [("pooling.key_value", 4), ("pooling.funnel", 2)])
def test_the_scores_are_as_many_times_fewer_as_there_are_tokens_in_a_block(name: str, factor: int) -> None:
    shape = problem(1024, D=64, M=64)
    forward, both = (load(name).cost(shape, {}, workload) for workload in (FORWARD, BOTH))
    assert forward.nominal_flops == nominal_flops(shape, FORWARD)
    assert forward.exact_flops == forward.executed_flops == forward.nominal_flops / factor
    assert both.exact_flops == 3 * forward.exact_flops
    assert both.executed_flops == 3.5 * forward.executed_flops


def test_hidden_blocks_need_no_work() -> None:
    shape = problem(64, B=2, D=8, M=8, padding=0.5)
    # 48 and 32 visible keys
    found = load("pooling.key_value").cost(shape, {}, FORWARD)
    assert found.exact_flops == 2 * 4 * 64 * (12 + 8) * 16
    assert found.executed_flops == 2 * 4 * 64 * 32 * 16


@pytest.mark.cuda
@pytest.mark.parametrize("name", NAMES)
def test_a_gpu_computes_the_same(name: str, inputs_of: Any) -> None:
    method = build(name, problem(63, D=64, M=32, dtype="float32"))
    inputs = [x.detach() for x in inputs_of(method)]
    got = method.cuda()(*(x.cuda() for x in inputs)).cpu()
    torch.testing.assert_close(got, method.cpu().reference(*inputs), rtol=1e-3, atol=1e-3)
