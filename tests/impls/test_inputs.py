"""Inputs are drawn as those that stored results were measured on, whatever becomes of the code that draws them."""

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from attnbench import registry
from attnbench.api import Layout, draw, laid_out
from tests.impls.contract.test_projections import PACED, P, generator, same

Recipe = Callable[[Callable[[int, int], Tensor], torch.Generator], tuple[Tensor, ...]]


def test_only_the_softmax_without_a_cache_computes_its_prefix_anew() -> None:
    assert [name for name in registry.catalogue() if registry.load(name).recomputes] == ["softmax.recompute"]


def unit(x: Tensor) -> Tensor:
    return F.normalize(x, dim=-1)


def log_decay(x: Tensor, H: int, width: int, source: torch.Generator) -> Tensor:
    evenly = torch.rand((H, 1, width), generator=source, dtype=torch.float64)
    rates = 1 + 15 * torch.rand((H, 1, 1), generator=source, dtype=torch.float64)
    steps = 0.001 * (0.1 / 0.001) ** evenly
    bias = steps + (-(-steps).expm1()).log()
    return (-rates * F.softplus(x.to(bias.dtype) + bias)).to(x.dtype)


def plain(x: Callable[[int, int], Tensor], _: torch.Generator) -> tuple[Tensor, ...]:
    return x(4, 8), x(4, 8), x(4, 12)


def shared(x: Callable[[int, int], Tensor], _: torch.Generator) -> tuple[Tensor, ...]:
    qk = x(4, 8)
    return qk, qk, x(4, 12)


def gau(x: Callable[[int, int], Tensor], source: torch.Generator) -> tuple[Tensor, ...]:
    return *plain(x, source), x(4, 12)


def deltanet(x: Callable[[int, int], Tensor], source: torch.Generator) -> tuple[Tensor, ...]:
    q, k, v = plain(x, source)
    return unit(q), unit(k), v, x(4, 1).sigmoid().squeeze(-1)


def gated_deltanet(x: Callable[[int, int], Tensor], source: torch.Generator) -> tuple[Tensor, ...]:
    return *deltanet(x, source), log_decay(x(4, 1), 4, 1, source).squeeze(-1)


def kda(x: Callable[[int, int], Tensor], source: torch.Generator) -> tuple[Tensor, ...]:
    return *deltanet(x, source), log_decay(x(4, 8), 4, 8, source)


def rwkv7(x: Callable[[int, int], Tensor], source: torch.Generator) -> tuple[Tensor, ...]:
    r, k, v = plain(x, source)
    decay, kappa, rate = x(4, 8), unit(x(4, 8)), x(4, 8)
    shrunk = 1 / math.sqrt(8)
    return r * shrunk, k * shrunk, v, decay.sigmoid() * -math.exp(-0.5), -kappa, kappa * rate.sigmoid()


def nsa(x: Callable[[int, int], Tensor], source: torch.Generator) -> tuple[Tensor, ...]:
    return *plain(x, source), *(x(4, 1).sigmoid().squeeze(-1) for _ in range(3))


def mamba2(x: Callable[[int, int], Tensor], source: torch.Generator) -> tuple[Tensor, ...]:
    return *plain(x, source), F.softplus(x(4, 1).squeeze(-1) - 4)


def gla(x: Callable[[int, int], Tensor], source: torch.Generator) -> tuple[Tensor, ...]:
    return *plain(x, source), F.softplus(x(4, 8)) / -16


RECIPES: dict[str, Recipe] = {
    "softmax.sdpa": plain,
    "linformer.mean": plain,
    "lsh.reformer": shared,
    "vq.gau": gau,
    "delta.deltanet": deltanet,
    "delta.gated_deltanet": gated_deltanet,
    "delta.gated_deltanet_fla": gated_deltanet,
    "delta.kda": kda,
    "delta.kda_fla": kda,
    "delta.rwkv7": rwkv7,
    "blocks.nsa": nsa,
    **dict.fromkeys(("gated.retnet", "gated.lightning", "gated.hgrn2"), plain),
    "gated.mamba2": mamba2,
    "gated.gla": gla,
}


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("name", RECIPES)
def test_drawn_numbers_are_those_that_stored_results_were_measured_on(name: str, dtype: str) -> None:
    p, method, source, mine = P.model_copy(update={"dtype": dtype}), registry.load(name), generator(), generator()

    def x(heads: int, width: int) -> Tensor:
        drawn = torch.randn((2, heads, 33, width), generator=mine, dtype=getattr(torch, dtype))
        return laid_out(drawn, method.layout)

    assert same(method.inputs(p, source), RECIPES[name](x, mine))
    # a gradient is drawn next
    following = torch.randn((2, 1, 33, 1), generator=mine, dtype=getattr(torch, dtype))
    assert torch.equal(draw(p, 1, 1, source, Layout.BHND), following)


@pytest.mark.parametrize("name", sorted(PACED))
def test_heads_of_a_model_forget_at_paces_of_their_own(name: str) -> None:
    method = registry.load(name)
    tokens = method.admit(P, *(torch.zeros(1, each.heads, 1, each.width) for each in method.projections(P)))
    decays = tokens[-1].reshape(P.H, -1)
    assert (decays < 0).all()
    assert len(set(decays.flatten().tolist())) == decays.numel()
    half = method.admit(P, *(torch.zeros(1, each.heads, 1, each.width).half() for each in method.projections(P)))[-1]
    assert half.dtype is torch.float16
    torch.testing.assert_close(half.flatten().float(), decays.flatten(), rtol=1e-3, atol=1e-4)
