"""The largest scores, the scorer of DeepSeek Sparse Attention, a window with sinks, that of a package; second derivatives."""

from importlib import import_module
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnbench import Problem
from attnbench.measure.profiler_memory import torch_profiler_peak
from attnbench.registry import load
from attnbench.workloads.decoding import cut
from tests.impls.contract.calls import Call, inputs_of, same
from tests.impls.contract.method import BOTH, FORWARD
from tests.impls.contract.subjects import Variant, cost_of
from tests.impls.sparse.strategies import Shape, neighbours

# by name: installed under another name than that of its folder
selection: Any = import_module("attnbench_impls.sparse.chosen.selection")
TopK: Any = load("sparse.topk")

SINKS = Problem(B=2, H=4, kv_heads=2, N=37, D=8, M=6, causal=True, dtype="float64")


def topk_of(N: int, k: int = 8, **fields: Any) -> Any:
    return TopK(Problem(**{"B": 2, "H": 4, "N": N, "D": 8, "dtype": "float64", **fields}), k=k)


def scores_of(method: Any, q: Tensor, k: Tensor) -> Tensor:
    """Of all pairs, [B, H, N, N], -inf where hidden."""
    scores = q @ k.repeat_interleave(q.shape[1] // k.shape[1], dim=1).mT
    hidden = torch.ones_like(scores, dtype=torch.bool).triu(1)
    return scores.masked_fill(hidden, -torch.inf) if method.causal else scores


@given(N=st.integers(1, 40), k=st.integers(1, 50), causal=st.booleans(), block=st.sampled_from([1, 100, 1 << 20]))
@settings(max_examples=60, deadline=None)
def test_the_largest_are_kept_each_once_and_attended(N: int, k: int, causal: bool, block: int) -> None:
    method = topk_of(N, k, causal=causal, kv_heads=2)
    q, key, v = type(method).inputs(method.problem, torch.Generator().manual_seed(N))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "SCORES", block)
        kept = method.choose(q, key, v)
    scores = scores_of(method, q, key)
    seen = (scores > -torch.inf).sum(-1)
    assert torch.equal((kept >= 0).sum(-1), seen.clamp(max=k))
    mask = torch.zeros(2, 4, N, N + 1, dtype=torch.bool).scatter_(3, kept % (N + 1), True)[..., :-1]
    assert torch.equal(mask.sum(-1), seen.clamp(max=k))
    assert (scores.masked_fill(mask, -torch.inf).amax(-1) <= scores.masked_fill(~mask, torch.inf).amin(-1)).all()
    want = (scores / 8**0.5).masked_fill(~mask, -torch.inf).softmax(-1) @ v.repeat_interleave(2, 1)
    torch.testing.assert_close(method(q, key, v), want, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["sparse.topk", "sparse.window", "lsh.reformer"])
def test_a_second_derivative_is_refused_in_words(name: str) -> None:
    call = Call(Variant(name, {"bucket_size": 8} if name == "lsh.reformer" else {}), Problem(B=1, H=1, N=20, D=8))
    (slope,) = torch.autograd.grad(call.method(*call.inputs).square().sum(), call.inputs[0], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.sum().backward()


def test_of_equal_scores_no_more_than_k_are_kept() -> None:
    method = topk_of(50, causal=True)
    kept = method.choose(*(torch.ones_like(x) for x in inputs_of(method)))
    assert torch.equal((kept >= 0).sum(-1), torch.arange(1, 51).clamp(max=8).expand(2, 4, 50))
    assert (kept <= torch.arange(50)[:, None]).all()


@pytest.mark.parametrize("causal", [False, True])
def test_work_is_that_of_the_scores_and_of_what_is_kept(causal: bool) -> None:
    method = topk_of(100, M=6, causal=causal)
    zeros = torch.zeros(2, 4, 100, 8)
    choices = method.choose(*inputs_of(method))
    seen, kept = int((scores_of(method, zeros, zeros) == 0).sum()), int((choices >= 0).sum())
    forward, both = (TopK.cost(method.problem, {}, each) for each in (FORWARD, BOTH))
    assert forward.exact_flops == 2 * (8 * seen + 6 * kept)
    assert both.exact_flops == forward.exact_flops + 2 * kept * 2 * (8 + 6)
    # one block of queries: nothing of the square is skipped
    assert forward.executed_flops == 2 * (8 * 2 * 4 * 100 * 100 + (8 + 6) * choices.numel())


@pytest.mark.parametrize(("name", "params", "places"), [("topk", {}, 7), ("dsa", {"k": 90}, 7), ("qsa", {"k": 80}, 15)])
def test_every_place_of_a_list_is_work_and_none_is_beyond_the_keys(name: str, params: dict[str, Any], places: int) -> None:
    call = Call(Variant(f"sparse.{name}", params), Problem(B=2, H=4, kv_heads=2, N=7, D=8, M=6, causal=True))
    forward, both = (cost_of(f"sparse.{name}", call.problem, each, params).executed_flops for each in (FORWARD, BOTH))
    assert call.method.choose(*call.inputs).shape[-1] == places
    # the choice has no gradient; the backward of attention has four products
    assert both - forward == 2 * 2 * (8 + 6) * 2 * 4 * 7 * places


def test_the_loss_of_the_scorer_reaches_it_alone_and_brings_it_nearer() -> None:
    call = Call(Variant("sparse.dsa", {"k": 9}), Problem(B=2, H=4, kv_heads=2, N=40, D=8, causal=True, dtype="float64"))
    loss = call.method.penalty(*call.inputs, choices=call.choices)
    slopes = torch.autograd.grad(loss, call.inputs, allow_unused=True)
    assert all(slope is None for slope in slopes[:3])
    nearer = [x.detach() - 0.1 * (0 if slope is None else slope) for x, slope in zip(call.inputs, slopes, strict=True)]
    assert 0 < call.method.penalty(*nearer, choices=call.choices) < loss


def test_a_scorer_that_agrees_with_the_attention_has_no_loss() -> None:
    """One head of each, q' = q and k' = k where no product is negative."""
    method = Variant("sparse.dsa", {"k": 9}).build(Problem(B=1, H=1, N=40, D=8, causal=True, dtype="float64"))
    q, k, v = (torch.rand(1, 1, 40, 8, dtype=torch.float64) for _ in range(3))
    inputs = q, k, v, q, k, torch.full((1, 1, 40), method.scale, dtype=torch.float64)
    assert abs(float(method.penalty(*inputs, choices=method.choose(*inputs)))) < 1e-6


@pytest.mark.parametrize(("name", "params"), [("dsa", {"k": 4}), ("qsa", {"k": 4, "block": 2})])
def test_a_step_in_half_precision_widens_what_is_listed_and_not_the_cache(name: str, params: dict[str, int]) -> None:
    call = Call(Variant(f"sparse.{name}", params), Problem(B=1, H=2, N=9, D=32, causal=True, dtype="bfloat16"))
    _, state = call.method.prefill(*cut(call.inputs, 8), capacity=4096)
    token = cut(call.inputs, 9, start=8)
    assert (torch_profiler_peak(lambda: call.method.step(*token, state=state)).bytes or torch.inf) < state.cache.k.numel()


def with_sinks(sinks: Tensor | float) -> Call:
    call = Call(Variant("sparse.window_sinks", {"window": 5}), SINKS)
    with torch.no_grad():
        call.method.sinks.copy_(torch.as_tensor(sinks))
    return call


def test_a_sink_takes_nothing_or_all_or_its_share_of_the_first_token() -> None:
    same([with_sinks(-1e9).forward()], [Call(Variant("sparse.window", {"window": 5}), SINKS).forward()], 1e-12)
    assert with_sinks(1e9).forward().abs().max() < 1e-30
    sinks = torch.tensor([-1.0, 0.0, 0.5, 2.0], dtype=torch.float64)
    call = with_sinks(sinks)
    q, k, v = (x[:, :, 0].detach() for x in call.inputs)
    score = (q * k.repeat_interleave(2, dim=1)).sum(-1) / 8**0.5
    want = torch.sigmoid(score - sinks).unsqueeze(-1) * v.repeat_interleave(2, dim=1)
    torch.testing.assert_close(call.forward()[:, :, 0], want)


@given(N=st.integers(1, 50), window=st.integers(1, 20), causal=st.booleans())
@settings(max_examples=60, deadline=None)
def test_the_window_of_the_package_sees_the_keys_of_a_window_pattern(N: int, window: int, causal: bool) -> None:
    method: Any = Variant("sparse.local_attention", {"window": window}).build(
        Problem(B=1, H=1, N=N, D=2, causal=causal, dtype="float64")
    )
    # with keys of zeros and values of one token each, an output tells who was seen
    q = torch.zeros(1, 1, N, 2, dtype=torch.float64)
    seen = method(q, q, torch.eye(N, dtype=torch.float64)[None, None])[0, 0] > 0
    assert torch.equal(seen, neighbours.Window(window + 1 if causal else 2 * window).seen(Shape(N, 1, causal))[0])
