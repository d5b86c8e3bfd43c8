"""The largest scores of each query: exactly so many, the right ones, differentiated and decoded."""

from importlib import import_module
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnbench import Problem
from attnbench.api import Cell, Workload
from attnbench.measure.profiler_memory import torch_profiler_peak
from attnbench.workloads.decoding import repeated

topk: Any = import_module("attnbench_impls.sparse.topk")
selection: Any = import_module("attnbench_impls.sparse.selection")
kept_keys: Any = import_module("attnbench_impls.sparse.kept_keys")

TopK = topk.TopKAttention
FORWARD, BOTH, STEP, TOTAL = WORKLOADS = tuple(Workload)[:4]


def build(N: int, k: int = 8, **fields: Any) -> Any:
    return TopK(Problem(**{"B": 2, "H": 4, "N": N, "D": 8, "dtype": "float64", **fields}), k=k)


def scores_of(method: Any, q: Tensor, k: Tensor) -> Tensor:
    """Of all pairs, [B, H, N, N], -inf where hidden."""
    scores = q @ k.repeat_interleave(q.shape[1] // k.shape[1], dim=1).mT
    hidden = torch.ones_like(scores, dtype=torch.bool).triu(1)
    return scores.masked_fill(hidden, -torch.inf) if method.causal else scores


@pytest.mark.parametrize("shape", [{}, {"kv_heads": 2, "M": 5}], ids=str)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("N", "k"), [(1, 1), (1, 8), (5, 8), (63, 3), (64, 8), (257, 20)])
def test_it_is_its_definition_with_its_gradients(
    N: int, k: int, causal: bool, shape: dict[str, Any], inputs_of: Any, gradient_of: Any, evaluate: Any
) -> None:
    method = build(N, k, causal=causal, **shape)
    inputs, g = inputs_of(method), gradient_of(method)
    choices = method.choose(*inputs)
    got, want = (evaluate(method, function, inputs, g, choices) for function in ("forward", "reference"))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-10)
    torch.testing.assert_close(evaluate(method, "forward", inputs, g), want, rtol=0, atol=1e-10)


@given(N=st.integers(1, 40), k=st.integers(1, 50), causal=st.booleans(), block=st.sampled_from([1, 100, 1 << 20]))
@settings(max_examples=60, deadline=None)
def test_the_largest_are_kept_each_once_and_as_many_as_there_are(N: int, k: int, causal: bool, block: int) -> None:
    method = build(N, k, causal=causal, kv_heads=2)
    q, key, v = type(method).inputs(method.problem, torch.Generator().manual_seed(N))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "SCORES", block)
        kept = method.choose(q, key, v)
    scores = scores_of(method, q, key)
    seen = (scores > -torch.inf).sum(-1)
    assert torch.equal((kept >= 0).sum(-1), seen.clamp(max=k))
    mask = torch.zeros(2, 4, N, N + 1, dtype=torch.bool).scatter_(3, kept % (N + 1), True)[..., :-1]
    assert torch.equal(mask.sum(-1), seen.clamp(max=k))
    lowest = scores.masked_fill(~mask, torch.inf).amin(-1)
    assert (scores.masked_fill(mask, -torch.inf).amax(-1) <= lowest).all()


def test_of_equal_scores_no_more_than_k_are_kept(inputs_of: Any) -> None:
    method = build(50, 8, causal=True)
    q, k, v = (torch.ones_like(x) for x in inputs_of(method))
    kept = method.choose(q, k, v)
    assert torch.equal((kept >= 0).sum(-1), torch.arange(1, 51).clamp(max=8).expand(2, 4, 50))
    assert (kept <= torch.arange(50)[:, None]).all()


@pytest.mark.parametrize("causal", [False, True])
def test_with_k_of_all_keys_it_is_softmax_attention(causal: bool, inputs_of: Any) -> None:
    method = build(30, 30, causal=causal)
    q, k, v = inputs_of(method)
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    torch.testing.assert_close(method(q, k, v), want, rtol=0, atol=1e-10)


def test_the_future_changes_nothing_before_it_bit_for_bit(inputs_of: Any) -> None:
    method = build(300, 8, causal=True, dtype="float32")
    q, k, v = (x.detach() for x in inputs_of(method))
    o = method(q, k, v)
    for x in (q, k, v):
        x[:, :, 200:] = 3 - x[:, :, 200:]
    assert torch.equal(method(q, k, v)[:, :, :200], o[:, :, :200])


def test_gradients_are_the_same_at_each_call_and_for_any_grouping(
    inputs_of: Any, gradient_of: Any, evaluate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = build(200, 8, dtype="float32")
    inputs, g = inputs_of(method), gradient_of(method)
    choices = method.choose(*inputs)
    first = evaluate(method, "forward", inputs, g, choices)
    monkeypatch.setattr(kept_keys, "SCORES", 1)
    for again in (evaluate(method, "forward", inputs, g, choices) for _ in range(2)):
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


def test_it_cannot_be_differentiated_twice_and_says_so(inputs_of: Any) -> None:
    method = build(10)
    q, k, v = inputs_of(method)
    o = method(q, k, v)
    (dq,) = torch.autograd.grad(o, q, torch.ones_like(o, requires_grad=True), create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        dq.sum().backward()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_in_a_narrow_dtype_it_is_within_twice_the_error_of_the_definition(
    dtype: str, inputs_of: Any, gradient_of: Any, evaluate: Any
) -> None:
    method = build(256, 8, causal=True, D=32, dtype=dtype)
    inputs, g = inputs_of(method), gradient_of(method)
    choices = method.choose(*inputs)
    wide = [x.detach().double().requires_grad_() for x in inputs]
    got, eager = (evaluate(method, function, inputs, g, choices) for function in ("forward", "reference"))
    for o, e, r in zip(got, eager, evaluate(method, "reference", wide, g.double(), choices), strict=True):
        slack = 4 * torch.finfo(o.dtype).eps * float(r.abs().max())
        assert float((o - r).abs().max()) <= 2 * float((e - r).abs().max()) + slack


@pytest.mark.parametrize("given_choices", [False, True])
@pytest.mark.parametrize("shape", [{}, {"kv_heads": 2, "M": 5}], ids=str)
@pytest.mark.parametrize(("N", "k", "prompt"), [(1, 8, 0), (33, 8, 0), (33, 8, 1), (33, 3, 16), (33, 8, 33)])
def test_decoding_is_the_parallel_form(
    N: int, k: int, prompt: int, shape: dict[str, Any], given_choices: bool, inputs_of: Any
) -> None:
    method = build(N, k, causal=True, **shape)
    inputs = [x.detach() for x in inputs_of(method)]
    choices = method.choose(*inputs)

    def share(start: int, stop: int) -> dict[str, Any]:
        return {"choices": choices[:, :, start:stop]} if given_choices else {}

    o, state = method.prefill(*(x[:, :, :prompt] for x in inputs), capacity=N, **share(0, prompt))
    outputs = [o]
    for t in range(prompt, N):
        o, state = method.step(*(x[:, :, t : t + 1] for x in inputs), state=state, **share(t, t + 1))
        outputs.append(o)
    torch.testing.assert_close(torch.cat(outputs, 2), method(*inputs, choices=choices), rtol=0, atol=1e-10)
    assert method.state_bytes(state) == 2 * method.problem.kv_heads * N * (8 + method.problem.M) * 8
    with pytest.raises(ValueError, match=f"token {N + 1} is beyond the capacity of {N} tokens"):
        method.step(*(x[:, :, :1] for x in inputs), state=state)


def test_the_state_of_one_sequence_can_be_repeated(inputs_of: Any) -> None:
    method = build(20, 4, causal=True, B=1)
    inputs = [x.detach() for x in inputs_of(method)]
    _, state = method.prefill(*(x[:, :, :19] for x in inputs), capacity=20)
    token = [x[:, :, 19:] for x in inputs]
    many = repeated(state, 3)
    want = method.step(*token, state=state)[0]
    got = method.step(*(x.expand(3, -1, -1, -1) for x in token), state=many)[0]
    torch.testing.assert_close(got, want.expand(3, -1, -1, -1))


SHAPES: list[tuple[dict[str, Any], int]] = [
    ({"N": 1024}, 8),
    ({"N": 1024, "causal": True}, 8),
    ({"N": 512, "B": 16, "causal": True, "kv_heads": 2, "M": 32}, 16),
    ({"N": 1024, "dtype": "float64", "kv_heads": 2, "causal": True}, 8),
]


def call_of(method: Any, workload: Workload, inputs: Any, g: Any) -> Any:
    p, token = method.problem, [x.detach()[:, :, :1] for x in inputs]
    if workload is FORWARD:
        return lambda: method(*(x.detach() for x in inputs))
    if workload is BOTH:
        return lambda: torch.autograd.grad(method(*inputs), inputs, g)
    if workload is STEP:
        _, state = method.prefill(*(x.detach()[:, :, : p.N - 1] for x in inputs), capacity=p.N)
        return lambda: method.step(*token, state=state)

    def from_nothing() -> object:
        o, state = method.prefill(*(x[:, :, :0] for x in token), capacity=p.N)
        for _ in range(p.N):
            o, state = method.step(*token, state=state)
        return o

    return from_nothing


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize(("shape", "k"), SHAPES, ids=str)
def test_the_predicted_peak_is_what_torch_allocates(
    shape: dict[str, Any], k: int, workload: Workload, inputs_of: Any, gradient_of: Any
) -> None:
    if workload.decodes:
        shape = {**shape, "causal": True, "B": 4}
    if workload is TOTAL:
        shape = {**shape, "N": 128}
    method = build(**{"dtype": "float32", "D": 64, "k": k, **shape})
    call = call_of(method, workload, inputs_of(method), gradient_of(method))
    call()
    peak = torch_profiler_peak(call).bytes
    assert peak == pytest.approx(TopK.cost(method.problem, {"k": k}, workload).peak_bytes, rel=0.1)


@pytest.mark.parametrize("causal", [False, True])
def test_work_is_that_of_the_scores_and_of_what_is_kept(causal: bool) -> None:
    problem = Problem(B=2, H=4, N=100, D=8, M=6, causal=causal)
    method = TopK(problem, k=8)
    scores = scores_of(method, torch.zeros(2, 4, 100, 8), torch.zeros(2, 4, 100, 8))
    seen, kept = int((scores == 0).sum()), int((method.choose(*TopK.inputs(problem, torch.Generator())) >= 0).sum())
    cost = TopK.cost(problem, {}, FORWARD)
    assert cost.exact_flops == 2 * (8 * seen + 6 * kept)
    assert TopK.cost(problem, {}, BOTH).exact_flops == cost.exact_flops + 2 * kept * 2 * (8 + 6)
    # one block of queries: nothing of the square is skipped
    assert cost.executed_flops == 2 * (8 * 2 * 4 * 100 * 100 + (8 + 6) * kept)


def test_a_whole_sequence_costs_the_sum_of_its_steps() -> None:
    def cost(workload: Workload, N: int) -> Any:
        return TopK.cost(Problem(B=2, H=4, kv_heads=2, N=N, D=8, M=6, causal=True), {"k": 5}, workload)

    steps = [cost(STEP, n) for n in range(1, 33)]
    for field in ("nominal_flops", "exact_flops", "executed_flops", "traffic_bytes"):
        assert getattr(cost(TOTAL, 32), field) == sum(getattr(step, field) for step in steps), field


def test_a_long_causal_sequence_skips_nearly_half_of_the_scores() -> None:
    square = TopK.cost(Problem(N=8192), {}, FORWARD).executed_flops
    assert TopK.cost(Problem(N=8192, causal=True), {}, FORWARD).executed_flops == pytest.approx(0.52 * square, rel=0.05)


def test_its_limits_and_mistakes_are_said_in_words() -> None:
    assert TopK.refusal(Cell(method="x", problem=Problem(N=65, causal=True), workload=STEP)) is None
    with pytest.raises(ValueError, match="k=0: must be a whole number, 1 or more"):
        build(8, 0)
    with pytest.raises(ValueError, match="k=0: must be a whole number, 1 or more"):
        TopK.cost(Problem(N=8), {"k": 0}, FORWARD)
    with pytest.raises(TypeError, match="colour"):
        TopK.cost(Problem(N=8), {"colour": 3}, FORWARD)


@pytest.mark.cuda
@pytest.mark.parametrize("causal", [False, True])
def test_a_gpu_computes_and_differentiates_it(causal: bool, evaluate: Any) -> None:
    method = TopK(Problem(B=2, H=4, kv_heads=2, N=300, D=64, causal=causal, dtype="float32"), k=8)
    inputs = [x.cuda().requires_grad_() for x in TopK.inputs(method.problem, torch.Generator().manual_seed(0))]
    g = torch.randn_like(inputs[0])
    choices = method.choose(*inputs)
    got, want = (evaluate(method, function, inputs, g, choices) for function in ("forward", "reference"))
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
    assert all(torch.equal(a, b) for a, b in zip(got, evaluate(method, "forward", inputs, g, choices), strict=True))
