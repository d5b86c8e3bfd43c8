"""What decays leave of pairs, states and writes within a chunk, whatever their speed."""

from importlib import import_module
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

# by name: installed under another name than that of its folder
decays: Any = import_module("attnbench_impls.recurrence.decay")


def pair_by_pair(q: Tensor, k: Tensor, log_decay: Tensor) -> Tensor:
    """Its definition, one pair after the other: [X, S, L, L]."""
    rows_, S, L, _ = q.shape
    rows = []
    for i in range(L):
        row = [q.new_zeros(rows_, S)] * L
        for j in range(i + 1):
            left = log_decay[:, :, j + 1 : i + 1].sum(2).exp()
            row[j] = (q[:, :, i] * k[:, :, j] * left).sum(-1)
        rows.append(torch.stack(row, -1))
    return torch.stack(rows, -2)


def drawn(L: int, gates: int, speed: float, D: int = 3, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    q, k = (torch.randn(2, 2, L, D, generator=generator, dtype=torch.float64) for _ in range(2))
    log_decay = -speed * torch.rand(2, 2, L, D if gates > 1 else 1, generator=generator, dtype=torch.float64)
    return q.requires_grad_(), k.requires_grad_(), log_decay.requires_grad_()


@settings(max_examples=60, deadline=None)
@given(
    L=st.integers(1, 24),
    gates=st.sampled_from([1, 3]),
    speed=st.sampled_from([0.0, 0.01, 1.0, 10.0, 300.0]),
    seed=st.integers(0, 99),
)
def test_pairs_are_those_of_the_definition(L: int, gates: int, speed: float, seed: int) -> None:
    q, k, log_decay = drawn(L, gates, speed, seed=seed)
    got, want = decays.Decay.of(log_decay).pairs(q, k), pair_by_pair(q, k, log_decay)
    torch.testing.assert_close(got, want, rtol=0, atol=1e-10)
    g = torch.randn_like(want)
    leaves = (q, k, log_decay) if L > 1 else (q, k)
    for a, b in zip(gradients(got, leaves, g), gradients(want, leaves, g), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-10)


def gradients(o: Tensor, leaves: tuple[Tensor, ...], g: Tensor) -> list[Tensor]:
    if not o.requires_grad:
        return [torch.zeros_like(x) for x in leaves]
    found = torch.autograd.grad(o, leaves, g, allow_unused=True)
    return [torch.zeros_like(x) if y is None else y for x, y in zip(leaves, found, strict=True)]


@pytest.mark.parametrize("L", [16, 63, 64])
@pytest.mark.parametrize("speed", [0.02, 3.0, 200.0])
def test_how_long_blocks_are_cannot_be_seen(L: int, speed: float, monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, log_decay = (x.detach() for x in drawn(L, 3, speed))
    found = []
    for most in (0.0, 5.0, 60.0):
        monkeypatch.setattr(decays, "FACTORED", most)
        found.append(decays.Decay.of(log_decay).pairs(q, k))
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-12)
    torch.testing.assert_close(found[0], found[2], rtol=0, atol=1e-12)


@pytest.mark.parametrize(("speed", "longest"), [(0.1, 64), (1.5, 32), (7.0, 8), (1000.0, 1)])
def test_blocks_are_as_long_as_their_decays_allow(speed: float, longest: int) -> None:
    c = torch.full((1, 3, 64, 2), -speed).cumsum(2)
    assert decays._longest_block(c) == longest


@pytest.mark.parametrize("gates", [1, 8])
def test_nothing_overflows_however_fast_it_decays(gates: int) -> None:
    q, k = (torch.randn(1, 2, 64, 8, requires_grad=True) for _ in range(2))
    log_decay = (-torch.logspace(-3, 3, 64)[torch.randperm(64)].view(1, 1, 64, 1).expand(1, 2, 64, gates)).requires_grad_()
    decay = decays.Decay.of(log_decay)
    o = decay.pairs(q, k).sum() + decay.read(q).sum() + decay.write(k).sum() + decay.carry.sum()
    assert all(x.isfinite().all() for x in (o, *torch.autograd.grad(o, (q, k, log_decay))))
