"""DeepSeek Sparse Attention: what trains its scorer."""

from typing import Any

import torch

from attnbench import Problem
from tests.impls.contract.calls import Call
from tests.impls.contract.subjects import Variant


def test_the_loss_of_the_scorer_reaches_it_alone_and_brings_it_nearer() -> None:
    call = Call(Variant("sparse.dsa", {"k": 9}), Problem(B=2, H=4, kv_heads=2, N=40, D=8, causal=True, dtype="float64"))
    method: Any = call.method
    loss = method.penalty(*call.inputs, choices=call.choices)
    slopes = torch.autograd.grad(loss, call.inputs, allow_unused=True)
    assert all(slope is None for slope in slopes[:3])
    nearer = [x.detach() - 0.1 * (0 if slope is None else slope) for x, slope in zip(call.inputs, slopes, strict=True)]
    assert 0 < method.penalty(*nearer, choices=call.choices) < loss


def test_a_scorer_that_agrees_with_the_attention_has_no_loss() -> None:
    """One head of each, q' = q and k' = k where no product is negative."""
    problem = Problem(B=1, H=1, N=40, D=8, causal=True, dtype="float64")
    method: Any = Variant("sparse.dsa", {"k": 9}).build(problem)
    q, k, v = (torch.rand(1, 1, 40, 8, dtype=torch.float64) for _ in range(3))
    w = torch.full((1, 1, 40), method.scale, dtype=torch.float64)
    inputs = q, k, v, q, k, w
    assert abs(float(method.penalty(*inputs, choices=method.choose(*inputs)))) < 1e-6
