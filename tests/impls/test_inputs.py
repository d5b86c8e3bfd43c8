"""Inputs are drawn as those that stored results were measured on, whatever becomes of the code that draws them."""

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from attnbench import registry
from attnbench.api import Layout, draw, laid_out
from tests.impls.contract.test_projections import P, generator, same

Draw = Callable[[int, int], Tensor]
"""Of so many heads and so wide, [2, heads, 33, width]."""


def log_decay(x: Tensor, H: int, width: int, source: torch.Generator) -> Tensor:
    evenly = torch.rand((H, 1, width), generator=source, dtype=torch.float64)
    rates = 1 + 15 * torch.rand((H, 1, 1), generator=source, dtype=torch.float64)
    steps = 0.001 * (0.1 / 0.001) ** evenly
    bias = steps + (-(-steps).expm1()).log()
    return (-rates * F.softplus(x.to(bias.dtype) + bias)).to(x.dtype)


def unit(x: Tensor) -> Tensor:
    return F.normalize(x, dim=-1)


def gate(x: Draw) -> Tensor:
    return x(4, 1).sigmoid().squeeze(-1)


def plain(x: Draw) -> tuple[Tensor, ...]:
    return x(4, 8), x(4, 8), x(4, 12)


def written(x: Draw) -> tuple[Tensor, ...]:
    q, k, v = plain(x)
    return unit(q), unit(k), v, gate(x)


def rwkv7(x: Draw) -> tuple[Tensor, ...]:
    r, k, v = plain(x)
    decay, kappa, rate = x(4, 8), unit(x(4, 8)), x(4, 8)
    return r * (1 / 8**0.5), k * (1 / 8**0.5), v, decay.sigmoid() * -math.exp(-0.5), -kappa, kappa * rate.sigmoid()


RECIPES: dict[tuple[str, ...], Callable[[Draw, torch.Generator], tuple[Tensor, ...]]] = {
    ("softmax.sdpa", "linformer.mean", "gated.retnet", "gated.lightning", "gated.hgrn2"): lambda x, _: plain(x),
    ("lsh.reformer",): lambda x, _: (qk := x(4, 8), qk, x(4, 12)),
    ("vq.gau",): lambda x, _: (*plain(x), x(4, 12)),
    ("blocks.nsa",): lambda x, _: (*plain(x), gate(x), gate(x), gate(x)),
    ("gated.mamba2",): lambda x, _: (*plain(x), F.softplus(x(4, 1).squeeze(-1) - 4)),
    ("gated.gla",): lambda x, _: (*plain(x), F.softplus(x(4, 8)) / -16),
    ("delta.deltanet",): lambda x, _: written(x),
    ("delta.gated_deltanet", "delta.gated_deltanet_fla"): lambda x, source: (
        *written(x),
        log_decay(x(4, 1), 4, 1, source).squeeze(-1),
    ),
    ("delta.kda", "delta.kda_fla"): lambda x, source: (*written(x), log_decay(x(4, 8), 4, 8, source)),
    ("delta.rwkv7",): lambda x, _: rwkv7(x),
}


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("name", [name for names in RECIPES for name in names])
def test_drawn_numbers_are_those_that_stored_results_were_measured_on(name: str, dtype: str) -> None:
    p, method, source, mine = P.model_copy(update={"dtype": dtype}), registry.load(name), generator(), generator()

    def x(heads: int, width: int) -> Tensor:
        drawn = torch.randn((2, heads, 33, width), generator=mine, dtype=getattr(torch, dtype))
        return laid_out(drawn, method.layout)

    (recipe,) = (recipe for names, recipe in RECIPES.items() if name in names)
    assert same(method.inputs(p, source), recipe(x, mine))
    # a gradient is drawn next
    following = torch.randn((2, 1, 33, 1), generator=mine, dtype=getattr(torch, dtype))
    assert torch.equal(draw(p, 1, 1, source, Layout.BHND), following)


@pytest.mark.parametrize("name", ["comba", "gated_deltanet", "gated_deltanet2", "gated_deltaproduct", "kda", "mesa"])
def test_heads_of_a_model_forget_at_paces_of_their_own(name: str) -> None:
    method = registry.load(f"delta.{name}")
    tokens = method.admit(P, *(torch.zeros(1, each.heads, 1, each.width) for each in method.projections(P)))
    decays = tokens[-1].reshape(P.H, -1)
    assert (decays < 0).all()
    assert len(set(decays.flatten().tolist())) == decays.numel()
    half = method.admit(P, *(torch.zeros(1, each.heads, 1, each.width).half() for each in method.projections(P)))[-1]
    assert half.dtype is torch.float16
    torch.testing.assert_close(half.flatten().float(), decays.flatten(), rtol=1e-3, atol=1e-4)
