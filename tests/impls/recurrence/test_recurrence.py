"""How gated linear attention is walked along: decays in factors or not, and parts of whole chunks."""

from importlib import import_module
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

# by name: installed under another name than that of its folder
linear: Any = import_module("attnbench_impls.recurrence.linear")
decays: Any = import_module("attnbench_impls.recurrence.decay")
parts: Any = import_module("attnbench_impls.recurrence.parts")


def drawn(N: int, gates: int, speed: float, group: int, B: int = 2, H: int = 3, D: int = 4, M: int = 5) -> list[Tensor]:
    """q, k, v, log decays and a state that so many heads of q read, in float64, with gradients asked for."""
    generator = torch.Generator().manual_seed(N)
    shapes = [(B, group * H, N, D), (B, H, N, D), (B, H, N, M), (B, H, N, D if gates > 1 else 1), (B, H, D, M)]
    tensors = [torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes]
    tensors[3] = -speed * tensors[3].abs()
    return [x.requires_grad_() for x in tensors]


def agree(got: tuple[Tensor, Tensor], want: tuple[Tensor, Tensor], leaves: list[Tensor]) -> None:
    torch.testing.assert_close(got, want, rtol=0, atol=1e-10)
    weights = [torch.randn_like(x) for x in want]
    torch.testing.assert_close(
        torch.autograd.grad(got, leaves, weights), torch.autograd.grad(want, leaves, weights), rtol=0, atol=1e-10
    )


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("gates", [1, 4])
def test_decays_may_be_taken_into_queries_and_keys_or_not(gates: int, group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v, log_decay, state = leaves = drawn(150, gates, 0.3, group)
    factored = linear.linear_attention(q, k, v, log_decay, state=state)
    monkeypatch.setattr(decays, "FACTORED", -1.0)
    agree(factored, linear.linear_attention(q, k, v, log_decay, state=state), leaves)


def test_one_row_that_decays_too_fast_is_enough() -> None:
    c = torch.zeros(2, 1, 64, 3)
    assert decays.Decay(c, c.dtype).most_lost <= decays.FACTORED
    c[1, 0, 63, 2] = -decays.FACTORED * 1.01
    assert decays.Decay(c, c.dtype).most_lost > decays.FACTORED


@given(N=st.integers(0, 500), rows=st.integers(1, 40), D=st.integers(1, 300), chunk=st.integers(1, 600))
def test_parts_cover_each_token_once_in_whole_chunks(N: int, rows: int, D: int, chunk: int) -> None:
    q = torch.empty(rows, 1, N, D, device="meta")
    walk = parts.parts(q, 7, chunk)
    assert [t for part in walk for t in range(part.start, part.stop)] == list(range(N))
    assert all((part.stop - part.start) % part.L == 0 for part in walk)
    assert [x for some in parts.groups(q) for x in range(rows)[some]] == list(range(rows))
