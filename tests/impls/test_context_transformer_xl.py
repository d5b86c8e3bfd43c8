"""Transformer-XL: segments, a memory that is a constant, positions relative to the query; in parallel and token by token."""

from importlib import import_module
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnbench import Problem, build
from attnbench.api import Cell, tensors_of
from attnbench.registry import load

relative: Any = import_module("attnbench_impls.context.relative")
positions: Any = import_module("attnbench_impls.context.positions")
segments: Any = import_module("attnbench_impls.context.segments")
partial: Any = import_module("attnbench_impls.partial.softmax")

NAME = "context.transformer_xl"


def built(N: int, segment: int, memory: int | None = None, **shape: Any) -> Any:
    problem = Problem(**{"B": 2, "H": 3, "N": N, "D": 8, "M": 5, "causal": True, "dtype": "float64", **shape})
    return build(NAME, problem, segment=segment) if memory is None else build(NAME, problem, segment=segment, memory=memory)


def drawn(method: Any) -> tuple[Tensor, ...]:
    return tuple(type(method).inputs(method.problem, torch.Generator().manual_seed(3)))


def evaluated(method: Any, function: str, inputs: tuple[Tensor, ...], g: Tensor) -> list[Tensor]:
    """The output, and the gradients of inputs and parameters."""
    leaves = [x.detach().requires_grad_() for x in inputs]
    o = method(*leaves) if function == "forward" else method.reference(*leaves)
    return [o.detach(), *torch.autograd.grad(o, [*leaves, *method.parameters()], g)]


def agrees_with_its_definition(method: Any) -> None:
    inputs = drawn(method)
    p = method.problem
    g = torch.randn(p.B, p.H, p.N, p.M, dtype=torch.float64)
    got, want = (evaluated(method, function, inputs, g) for function in ("forward", "reference"))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-10)


SMALL = [(1, 4, None), (2, 1, None), (2, 4, 0), (50, 7, 20)]
SIZES = [*SMALL, (63, 16, None), (64, 16, 40), (257, 64, 32), (70, 16, 5), (65, 16, 0)]


@pytest.mark.parametrize(("N", "segment", "memory"), SIZES)
def test_it_is_its_definition_with_the_gradients_of_inputs_and_parameters(N: int, segment: int, memory: int | None) -> None:
    agrees_with_its_definition(built(N, segment, memory))


@pytest.mark.parametrize("shape", [{"D": 7}, {"D": 4, "M": 9}, {"B": 1, "H": 1, "M": 8}, {"D": 1, "M": 1}], ids=str)
def test_widths_may_be_any(shape: dict[str, Any]) -> None:
    agrees_with_its_definition(built(37, 8, 12, **shape))


@pytest.mark.parametrize("scores", [1, 16 * 32 * 2, 16 * 32 * 5])
def test_the_scores_may_be_computed_in_any_parts(scores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relative, "SCORES", scores)
    agrees_with_its_definition(built(77, 16))


def test_without_the_fused_kernel_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial, "is_fused", lambda _: False)
    monkeypatch.setattr(relative, "is_fused", lambda _: False)
    agrees_with_its_definition(built(77, 16, 24))


@given(N=st.integers(1, 40), segment=st.integers(1, 45), memory=st.integers(0, 50))
@settings(max_examples=40, deadline=None)
def test_any_sizes_go_together(N: int, segment: int, memory: int) -> None:
    method = built(N, segment, memory)
    inputs = drawn(method)
    torch.testing.assert_close(method(*inputs), method.reference(*inputs), rtol=0, atol=1e-10)


def test_the_definition_is_the_papers_sum_over_pairs() -> None:
    method = built(13, 4, 3, B=1, H=1, D=6)
    q, k, v = (x[0, 0] for x in drawn(method))
    u, w, weight = (x[0] for x in (method.u, method.w, method.W_r))

    def r(x: int) -> Tensor:
        angles = torch.tensor([x / 10000 ** (2 * d / 6) for d in range(3)], dtype=torch.float64)
        position: Tensor = weight @ torch.cat((angles.sin(), angles.cos()))
        return position

    rows = []
    for i in range(13):
        seen = range(max(0, i // 4 * 4 - 3), i + 1)
        scores = torch.stack([(q[i] + u) @ k[j] + (q[i] + w) @ r(i - j) for j in seen]) / 6**0.5
        rows.append(scores.softmax(0) @ v[seen.start : seen.stop])
    got = method.reference(*(x[None, None] for x in (q, k, v)))[0, 0]
    torch.testing.assert_close(got, torch.stack(rows), rtol=0, atol=1e-10)


@pytest.mark.parametrize(("L", "memory"), [(1, 0), (1, 3), (5, 0), (4, 9)])
def test_moving_scores_is_gathering_them_by_distance(L: int, memory: int) -> None:
    width = memory + L
    scores = torch.randn(2, 3, L, width + 1)
    query, key = torch.arange(L)[:, None], torch.arange(width)
    apart = query + memory - key
    got, seen = positions.moved(scores), apart >= 0
    want = scores.gather(-1, (width - 1 - apart).clamp(0, width).expand(2, 3, L, width))
    assert torch.equal(got[..., seen], want[..., seen])
    assert got.data_ptr() == scores.data_ptr() + 4 * (L - 1)


def test_the_memory_is_a_constant() -> None:
    method = built(32, 8)
    q, k, v = (x.requires_grad_() for x in drawn(method))
    dk, dv = torch.autograd.grad(method(q, k, v)[:, :, 16:24].square().sum(), (k, v))
    for x in (dk, dv):
        assert (x[:, :, :16] == 0).all()
        assert (x[:, :, 16:24] != 0).any()
        assert (x[:, :, 24:] == 0).all()


def test_what_is_before_the_memory_changes_nothing() -> None:
    method = built(40, 8, 6)
    q, k, v = drawn(method)
    before = method(q, k, v)
    for x in (k, v):
        x[:, :, : 24 - 6] = 9
    assert torch.equal(method(q, k, v)[:, :, 24:], before[:, :, 24:])
    k[:, :, 24 - 6] = -9
    assert not torch.equal(method(q, k, v)[:, :, 24:32], before[:, :, 24:32])


@pytest.mark.parametrize("cut", [1, 20, 24, 39])
def test_the_future_changes_nothing_before_it(cut: int) -> None:
    method = built(40, 8)
    q, k, v = drawn(method)
    before = method(q, k, v)
    for x in (q, k, v):
        x[:, :, cut:] = 3 - x[:, :, cut:]
    assert torch.equal(method(q, k, v)[:, :, :cut], before[:, :, :cut])


def test_one_segment_without_positions_is_softmax() -> None:
    method = built(33, 512)
    for parameter in method.parameters():
        parameter.data.zero_()
    inputs = drawn(method)
    torch.testing.assert_close(method(*inputs), build("softmax.naive", method.problem)(*inputs), rtol=0, atol=1e-12)


def test_the_scores_depend_on_distance_alone() -> None:
    method = built(24, 24, 0, B=1)
    q, k, v = (x[:, :, :1].expand(-1, -1, 24, -1).clone() for x in drawn(method))
    v = torch.eye(24, dtype=torch.float64).expand(1, 3, -1, -1)
    p = method.reference(q, k, v)
    # equal tokens: the odds of two neighbouring distances are the same for every query
    odds = p.diagonal(-3, -2, -1)[..., 2:] / p.diagonal(-5, -2, -1)
    torch.testing.assert_close(odds, odds[..., :1].expand_as(odds), rtol=1e-10, atol=0)
    torch.testing.assert_close(method(q, k, v), p, rtol=0, atol=1e-12)


def decoded(method: Any, inputs: tuple[Tensor, ...], n: int) -> Tensor:
    N = inputs[0].shape[2]
    o, state = method.prefill(*(x[:, :, :n] for x in inputs), capacity=N)
    outputs = [o]
    for t in range(n, N):
        o, state = method.step(*(x[:, :, t : t + 1] for x in inputs), state=state)
        outputs.append(o)
    return torch.cat(outputs, dim=2)


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 45])
@pytest.mark.parametrize(("segment", "memory"), [(16, None), (8, 20), (16, 5), (7, 0), (64, None), (1, 4)])
def test_decoding_after_a_prompt_is_the_parallel_form(segment: int, memory: int | None, n: int) -> None:
    method = built(45, segment, memory)
    inputs = drawn(method)
    torch.testing.assert_close(decoded(method, inputs, n), method(*inputs), rtol=0, atol=1e-10)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_other_dtypes_are_near(dtype: str) -> None:
    method = built(63, 16, dtype=dtype)
    inputs = drawn(method)
    eager = method.reference(*inputs)
    got, steps = method(*inputs), decoded(method, inputs, 9)
    assert got.dtype is steps.dtype is inputs[0].dtype
    want = method.double().reference(*(x.double() for x in inputs))
    slack = 2 * (eager - want).abs().max() + 4 * torch.finfo(got.dtype).eps
    assert (got - want).abs().max() <= slack
    assert (steps - want).abs().max() <= slack


def test_the_state_is_of_constant_size_and_no_step_copies_it() -> None:
    method = built(40, 8)
    inputs = drawn(method)
    sizes = [method.state_bytes(method.prefill(*inputs, capacity=n)[1]) for n in (40, 4000)]
    assert sizes == [2 * 3 * (8 + 8) * (8 + 5) * 8] * 2
    _, state = method.prefill(*(x[:, :, :20] for x in inputs), capacity=40)
    _, after = method.step(*(x[:, :, 20:21] for x in inputs), state=state)
    assert [t.data_ptr() for t in tensors_of(after)] == [t.data_ptr() for t in tensors_of(state)]
    assert (state.length, after.length) == (20, 21)


def test_the_prompt_is_copied_not_kept() -> None:
    method = built(30, 8)
    inputs = drawn(method)
    want = method(*inputs)[:, :, 20:21]
    prompt = [x[:, :, :20].clone() for x in inputs]
    _, state = method.prefill(*prompt, capacity=30)
    for x in prompt:
        x.zero_()
    torch.testing.assert_close(method.step(*(x[:, :, 20:21] for x in inputs), state=state)[0], want, rtol=0, atol=1e-10)


def test_a_token_beyond_the_capacity_is_refused() -> None:
    method = built(12, 4)
    inputs = drawn(method)
    _, full = method.prefill(*(x[:, :, :5] for x in inputs), capacity=5)
    with pytest.raises(ValueError, match="token 6 is beyond the capacity of 5"):
        method.step(*(x[:, :, 5:6] for x in inputs), state=full)
    with pytest.raises(ValueError, match="token 6 is beyond the capacity of 5"):
        method.prefill(*(x[:, :, :6] for x in inputs), capacity=5)


def test_pairs_are_counted_as_they_are_seen() -> None:
    for N, L, memory in [(1, 4, 4), (13, 4, 3), (40, 8, 20), (9, 3, 0)]:
        cut = segments.Segments.of(N, L, memory)
        windows = [range(max(0, i // L * L - memory), i + 1) for i in range(N)]
        assert cut.pairs() == sum(map(len, windows))
        assert cut.own_pairs() == sum(i % L + 1 for i in range(N))
        assert [cut.seen(i) for i in range(N)] == [len(window) for window in windows]


def test_its_limits_and_mistakes_are_said_in_words() -> None:
    method = load(NAME)
    assert "set causal: true" in str(method.refusal(Cell(method="x", problem=Problem(N=8))))
    grouped = Problem(N=8, H=4, kv_heads=2, causal=True)
    assert "kv_heads must equal H" in str(method.refusal(Cell(method="x", problem=grouped)))
    assert "no key mask" in str(method.refusal(Cell(method="x", problem=Problem(N=8, causal=True, padding=0.5))))
    for params in ({"segment": 0}, {"memory": -1}, {"segment": 2.0}):
        with pytest.raises(ValueError, match=next(iter(params))):
            method(Problem(N=8, causal=True), **params)


@pytest.mark.cuda
def test_a_gpu_computes_the_same() -> None:
    method = built(77, 16, dtype="float64", M=8)
    inputs = drawn(method)
    g = torch.randn(2, 3, 77, 8, dtype=torch.float64)
    want = evaluated(method, "reference", inputs, g)
    got = evaluated(method.cuda(), "forward", tuple(x.cuda() for x in inputs), g.cuda())
    torch.testing.assert_close([x.cpu() for x in got], want, rtol=0, atol=1e-9)
    steps = decoded(method, tuple(x.cuda() for x in inputs), 20)
    torch.testing.assert_close(steps.cpu(), want[0], rtol=0, atol=1e-9)
