"""Adaptive spans: the soft mask and its gradient, windows that are cropped where nothing is left; parallel and step by step."""

from importlib import import_module
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnbench import Problem, build
from attnbench.api import Cell, Workload, tensors_of
from attnbench.registry import load

tiling: Any = import_module("attnbench_impls.context.sliding_tiles")
sliding: Any = import_module("attnbench_impls.context.sliding")
partial: Any = import_module("attnbench_impls.partial.softmax")

NAME = "context.adaptive_span"
EITHER = pytest.mark.parametrize("sees_itself", [False, True])
LATER, EARLIER = (0, 0, 1, 0), (0, 0, 0, 1)
"""One token more, at the start or at the end."""


def built(N: int, spans: list[float] | None = None, ramp: float = 8, sees_itself: bool = False, **shape: Any) -> Any:
    """With these spans, one for each head."""
    H = len(spans) if spans else 3
    problem = Problem(**{"B": 2, "H": H, "N": N, "D": 8, "M": 5, "causal": True, "dtype": "float64", **shape})
    method: Any = build(NAME, problem, span=20, ramp=ramp, sees_itself=sees_itself)
    if spans:
        method.z.data.copy_(torch.tensor(spans, dtype=torch.float64))
    return method


def drawn(method: Any) -> tuple[Tensor, ...]:
    return tuple(type(method).inputs(method.problem, torch.Generator().manual_seed(3)))


def evaluated(method: Any, function: str, inputs: tuple[Tensor, ...], g: Tensor) -> list[Tensor]:
    """The output, and the gradients of inputs and spans."""
    leaves = [x.detach().requires_grad_() for x in inputs]
    o = method(*leaves) if function == "forward" else method.reference(*leaves)
    return [o.detach(), *torch.autograd.grad(o, [*leaves, *method.parameters()], g)]


def agrees_with_its_definition(method: Any) -> None:
    p, inputs = method.problem, drawn(method)
    g = torch.randn(p.B, p.H, p.N, p.M, dtype=torch.float64)
    got, want = (evaluated(method, function, inputs, g) for function in ("forward", "reference"))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-10)


@pytest.mark.parametrize("spans", [[0.0, 5.3, 40.7], [16.0, 1.5, 300.0], [0.2, 60.0, 61.9]], ids=str)
@pytest.mark.parametrize("N", [1, 2, 3, 63, 64, 65, 257])
@EITHER
def test_it_is_its_definition_with_the_gradients_of_inputs_and_spans(sees_itself: bool, N: int, spans: list[float]) -> None:
    agrees_with_its_definition(built(N, spans, sees_itself=sees_itself))


@pytest.mark.parametrize("ramp", [0.4, 1.0, 32.0, 1000.0])
@EITHER
def test_a_ramp_may_have_any_length(sees_itself: bool, ramp: float) -> None:
    agrees_with_its_definition(built(90, [3.0, 11.8], ramp, sees_itself))


@EITHER
def test_tiles_at_the_start_are_more_than_one_where_spans_are_long(sees_itself: bool) -> None:
    agrees_with_its_definition(built(600, [290.5], sees_itself=sees_itself, B=1))


@pytest.mark.parametrize("shape", [{"M": 8}, {"D": 4, "M": 9}, {"B": 1, "D": 1, "M": 1}], ids=str)
def test_widths_may_be_any(shape: dict[str, Any]) -> None:
    agrees_with_its_definition(built(70, [5.5, 20.0], **shape))


@pytest.mark.parametrize(("together", "rows"), [(1, 1), (64, 2), (100, 1)])
def test_it_may_be_computed_in_any_parts(together: int, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiling, "_TOGETHER", together)
    monkeypatch.setattr(tiling, "_ROWS", rows)
    monkeypatch.setattr(tiling, "_HEAD", 7)
    agrees_with_its_definition(built(131, [5.5, 20.0], B=3))


def test_without_the_fused_kernel_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial, "is_fused", lambda _: False)
    monkeypatch.setattr(sliding, "is_fused", lambda _: False)
    agrees_with_its_definition(built(150, [5.5, 40.0]))


@given(N=st.integers(1, 60), z=st.floats(0, 70), ramp=st.floats(0.1, 40), sees_itself=st.booleans())
@settings(max_examples=80, deadline=None)
def test_any_span_and_length_go_together(N: int, z: float, ramp: float, sees_itself: bool) -> None:
    method = built(N, [z], ramp, sees_itself, B=1)
    inputs = drawn(method)
    torch.testing.assert_close(method(*inputs), method.reference(*inputs), rtol=0, atol=1e-10)


@given(N=st.integers(1, 700), window=st.integers(1, 700), length=st.sampled_from([32, 64, 128]), rows=st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_tiles_hold_every_query_once_and_all_that_it_sees(N: int, window: int, length: int, rows: int) -> None:
    window = min(window, N)
    held: list[int] = []
    for tile in tiling.tiles(N, window, length, rows):
        for y in range(tile.count):
            first, key = tile.first + y * tile.length, tile.key + y * tile.length
            held += range(first, first + tile.length)
            assert 0 <= key <= max(0, first - window + 1)
            assert key + tile.width == first + tile.length
    assert held == list(range(N))


@EITHER
def test_the_definition_is_the_papers_quotient(sees_itself: bool) -> None:
    method = built(17, [4.3], 3.0, sees_itself, B=1)
    q, k, v = (x[0, 0] for x in drawn(method))
    # the paper's sums end at t - 1: of the first token there is none
    rows = [] if sees_itself else [torch.zeros(5, dtype=torch.float64)]
    for i in range(len(rows), 17):
        masks = [min(max((3.0 + 4.3 - (i - j)) / 3.0, 0.0), 1.0) for j in range(i + sees_itself)]
        weights = torch.stack([m * (q[i] @ k[j] / 8**0.5).exp() for j, m in enumerate(masks)])
        rows.append((weights / weights.sum()) @ v[: len(masks)])
    got = method.reference(*(x[None, None] for x in (q, k, v)))[0, 0]
    torch.testing.assert_close(got, torch.stack(rows), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_the_first_token_gives_nothing_and_moves_nothing(dtype: str) -> None:
    method = built(40, [5.5, 20.0], dtype=dtype)
    inputs = [x.requires_grad_() for x in drawn(method)]
    for function in (method, method.reference):
        o = function(*inputs)
        assert not o[:, :, 0].any()
        assert all(not x.any() for x in torch.autograd.grad(o[:, :, 0].sum(), [*inputs, method.z]))
        dq, *others = torch.autograd.grad(function(*inputs).square().sum(), [*inputs, method.z])
        assert not dq[:, :, 0].any()
        assert all(x.isfinite().all() and x.any() for x in (dq, *others))


@pytest.mark.parametrize("spans", [[0.2, 5.0], [0.0, 0.6], [-3.0, 2.5]], ids=str)
def test_a_head_whose_span_ends_before_the_nearest_key_gives_nothing(spans: list[float]) -> None:
    method = built(30, spans, ramp=0.4)
    agrees_with_its_definition(method)
    inputs = drawn(method)
    assert not method(*inputs)[:, 0].any()
    for n in (0, 1, 12):
        torch.testing.assert_close(decoded(method, inputs, n), method.reference(*inputs), rtol=0, atol=1e-10)


def test_a_token_sees_itself_only_where_that_is_asked_for() -> None:
    for sees_itself in (False, True):
        method = built(30, sees_itself=sees_itself)
        q, k, v = drawn(method)
        before = method(q, k, v)
        k[:, :, 20:], v[:, :, 20:] = 2, 3
        assert torch.equal(method(q, k, v)[:, :, 20], before[:, :, 20]) is not sees_itself


def test_the_gradient_of_a_span_is_the_slope_of_the_output() -> None:
    method = built(80, [7.3, 21.6])
    inputs = drawn(method)
    g = torch.randn(2, 2, 80, 5, dtype=torch.float64)
    (dz,) = torch.autograd.grad(method(*inputs), [method.z], g)
    for head in range(2):
        sides = []
        for step in (1e-5, -1e-5):
            moved = built(80, [7.3, 21.6])
            moved.z.data.copy_(method.z.data)
            moved.z.data[head] += step
            sides.append((moved(*inputs) * g).sum())
        torch.testing.assert_close(dz[head], (sides[0] - sides[1]).detach() / 2e-5, rtol=1e-6, atol=1e-8)


@EITHER
def test_a_span_beyond_the_sequence_is_softmax(sees_itself: bool) -> None:
    method = built(70, [70.0, 1e6], sees_itself=sees_itself)
    q, k, v = drawn(method)
    visible = torch.ones(70, 70, dtype=torch.bool).tril(0 if sees_itself else -1)
    want = (q @ k.mT / 8**0.5).masked_fill(~visible, -torch.inf).softmax(-1).masked_fill(~visible, 0) @ v
    torch.testing.assert_close(method(q, k, v), want, rtol=0, atol=1e-12)
    torch.testing.assert_close(built(70, [2.0, 3.5], sees_itself=sees_itself).exact(q, k, v), want, rtol=0, atol=1e-12)
    (dz,) = torch.autograd.grad(method(q, k, v).sum(), [method.z])
    assert (dz == 0).all()


@pytest.mark.parametrize("ramp", [1e-15, 1e-9, 1e-6])
def test_the_last_token_within_a_span_counts_fully_however_narrow_the_ramp(ramp: float) -> None:
    method = built(40, [3.0, 20.0, 33.0], ramp=ramp)
    agrees_with_its_definition(method)
    inputs = drawn(method)
    torch.testing.assert_close(decoded(method, inputs, 25), method.reference(*inputs), rtol=0, atol=1e-10)


@pytest.mark.parametrize(("dtype", "span"), [("float16", 65536), ("float32", 1e300), ("float64", 1e308)])
def test_a_span_that_the_dtype_cannot_hold_is_endless(dtype: str, span: float) -> None:
    method: Any = build(NAME, Problem(N=9, D=8, causal=True, dtype=dtype), span=span, sees_itself=True)
    inputs = drawn(method)
    torch.testing.assert_close(method(*inputs), build("softmax.sdpa", method.problem)(*inputs))
    assert type(method).cost(method.problem, {"span": span}, Workload.FORWARD).peak_bytes > 0


def test_a_ramp_of_nothing_is_a_hard_window() -> None:
    method = built(100, [31.5, 31.5], 1e-6, sees_itself=True)
    q, k, v = drawn(method)
    window = build("sparse.window", method.problem, window=32)
    torch.testing.assert_close(method(q, k, v), window(q, k, v), rtol=0, atol=1e-12)
    # 32 keys, the last of them the token before
    before = built(101, [32.5, 32.5], 1e-6)(*(F.pad(x, side) for x, side in ((q, LATER), (k, EARLIER), (v, EARLIER))))
    torch.testing.assert_close(before[:, :, 1:], window(q, k, v), rtol=0, atol=1e-12)


def test_spans_begin_apart_and_the_longest_is_what_was_asked_for() -> None:
    method: Any = build(NAME, Problem(N=8, H=4, causal=True), span=100)
    assert method.z.tolist() == [25, 50, 75, 100]


def test_what_is_beyond_a_span_changes_nothing_and_what_is_within_does() -> None:
    method = built(90, [10.5], B=1, ramp=4)
    q, k, v = drawn(method)
    before = method(q, k, v)
    # 10.5 + 4 > 14 tokens back
    for x in (k, v):
        x[:, :, : 60 - 14] = 9
    assert torch.equal(method(q, k, v)[:, :, 60:], before[:, :, 60:])
    v[:, :, 60 - 14] = 9
    assert not torch.equal(method(q, k, v)[:, :, 60], before[:, :, 60])


def test_the_future_changes_nothing_before_it() -> None:
    method = built(90, [5.5, 40.0])
    q, k, v = drawn(method)
    before = method(q, k, v)
    for x in (q, k, v):
        x[:, :, 50:] = 3 - x[:, :, 50:]
    assert torch.equal(method(q, k, v)[:, :, :50], before[:, :, :50])


def decoded(method: Any, inputs: tuple[Tensor, ...], n: int) -> Tensor:
    N = inputs[0].shape[2]
    o, state = method.prefill(*(x[:, :, :n] for x in inputs), capacity=N)
    outputs = [o]
    for t in range(n, N):
        o, state = method.step(*(x[:, :, t : t + 1] for x in inputs), state=state)
        outputs.append(o)
    return torch.cat(outputs, dim=2)


@pytest.mark.parametrize("n", [0, 1, 2, 12, 13, 29, 50])
@pytest.mark.parametrize("spans", [[0.0, 4.5], [3.0, 11.7], [100.0, 2.0]], ids=str)
@EITHER
def test_decoding_after_a_prompt_is_the_parallel_form(sees_itself: bool, spans: list[float], n: int) -> None:
    method = built(50, spans, sees_itself=sees_itself)
    inputs = drawn(method)
    torch.testing.assert_close(decoded(method, inputs, n), method(*inputs), rtol=0, atol=1e-10)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_other_dtypes_are_near(dtype: str) -> None:
    method = built(63, [5.5, 20.0], dtype=dtype)
    inputs = drawn(method)
    eager = method.reference(*inputs)
    got, steps = method(*inputs), decoded(method, inputs, 9)
    assert got.dtype is steps.dtype is inputs[0].dtype
    want = method.double().reference(*(x.double() for x in inputs))
    slack = 2 * (eager - want).abs().max() + 4 * torch.finfo(got.dtype).eps
    assert (got - want).abs().max() <= slack
    assert (steps - want).abs().max() <= slack


def test_the_state_is_what_the_longest_span_reaches_and_no_step_copies_it() -> None:
    method = built(60, [3.0, 11.7])
    inputs = drawn(method)
    sizes = [method.state_bytes(method.prefill(*inputs, capacity=n)[1]) for n in (60, 6000)]
    assert sizes == [2 * 2 * 20 * (8 + 5) * 8] * 2
    _, state = method.prefill(*(x[:, :, :20] for x in inputs), capacity=60)
    _, after = method.step(*(x[:, :, 20:21] for x in inputs), state=state)
    assert [t.data_ptr() for t in tensors_of(after)] == [t.data_ptr() for t in tensors_of(state)]
    assert (state.length, after.length) == (20, 21)


def test_a_token_beyond_the_capacity_is_refused() -> None:
    method = built(12)
    inputs = drawn(method)
    _, full = method.prefill(*(x[:, :, :5] for x in inputs), capacity=5)
    with pytest.raises(ValueError, match="token 6 is beyond the capacity of 5"):
        method.step(*(x[:, :, 5:6] for x in inputs), state=full)
    with pytest.raises(ValueError, match="token 6 is beyond the capacity of 5"):
        method.prefill(*(x[:, :, :6] for x in inputs), capacity=5)


def test_its_limits_and_mistakes_are_said_in_words() -> None:
    method = load(NAME)
    assert "set causal: true" in str(method.refusal(Cell(method="x", problem=Problem(N=8))))
    grouped = Problem(N=8, H=4, kv_heads=2, causal=True)
    assert "kv_heads must equal H" in str(method.refusal(Cell(method="x", problem=grouped)))
    for params in ({"span": 0}, {"ramp": -1.0}, {"ramp": float("inf")}, {"sees_itself": 1}):
        with pytest.raises(ValueError, match=next(iter(params))):
            method(Problem(N=8, causal=True), **params)


@pytest.mark.cuda
def test_a_gpu_computes_the_same() -> None:
    method = built(200, [5.5, 40.0], M=8)
    inputs = drawn(method)
    g = torch.randn(2, 2, 200, 8, dtype=torch.float64)
    want = evaluated(method, "reference", inputs, g)
    got = evaluated(method.cuda(), "forward", tuple(x.cuda() for x in inputs), g.cuda())
    torch.testing.assert_close([x.cpu() for x in got], want, rtol=0, atol=1e-9)
    steps = decoded(method, tuple(x.cuda() for x in inputs), 20)
    torch.testing.assert_close(steps.cpu(), want[0], rtol=0, atol=1e-9)
