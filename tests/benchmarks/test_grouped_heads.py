"""What `grouped_heads.yaml` races are the same attentions."""

from pathlib import Path
from typing import Any

import pytest
import torch

from attnbench import registry
from attnbench.api import Problem
from attnbench.suite.load import load

SUITE = Path(__file__).with_name("grouped_heads.yaml")


@pytest.mark.parametrize("at", range(9))
def test_copies_of_grouped_heads_give_what_groups_give(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(SUITE.parent)
    methods = load(SUITE).suite.methods
    assert len(methods) == 18
    problem = Problem(B=2, H=4, kv_heads=2, N=96, D=16, causal=True)
    pair = methods[2 * at : 2 * at + 2]
    grouped, repeated = (
        registry.load(each.name)(problem, **{key: only for key, (only,) in each.params.items()}) for each in pair
    )
    for ours, theirs in zip(grouped.parameters(), repeated.parameters(), strict=True):
        # what is learned for each head of k is learned once
        theirs.data = ours.data.repeat_interleave(theirs.shape[0] // ours.shape[0], 0)
    inputs: Any = [x.requires_grad_() for x in type(grouped).inputs(problem, torch.Generator().manual_seed(0))]
    got, want = (
        method(*inputs, **({} if (choices := method.choose(*inputs)) is None else {"choices": choices}))
        for method in (repeated, grouped)
    )
    with torch.no_grad():
        torch.testing.assert_close(repeated.reference(*inputs), want, rtol=0, atol=2e-5)
    torch.testing.assert_close(got, want, rtol=0, atol=2e-5)
    g = torch.randn(got.shape, generator=torch.Generator().manual_seed(1))
    for a, b in zip(*(torch.autograd.grad(o, inputs, g, allow_unused=True) for o in (got, want)), strict=True):
        # gradients add up over the copies, to some hundreds: what is left of float32 is a share of them
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-4)
