"""Every method drops into a model: from unconstrained tensors to what its forward takes, and back by gradients."""

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from attnbench import registry
from attnbench.api import Attention, Cell, Layout, Problem, Tier, Workload, draw, laid_out

P = Problem(B=2, H=4, N=33, D=8, M=12, causal=True)
NAMES = [name for name in registry.catalogue() if name.count(":") == 0]
GATED = {"delta.gated_deltanet", "delta.kda"}
Recipe = Callable[[Callable[[int, int], Tensor], torch.Generator], tuple[Tensor, ...]]


def generator(seed: int = 3) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def runnable(name: str) -> Cell | None:
    """A small cell that the method runs on a CPU, backward included; None where there is none."""
    method = registry.load(name)
    if registry.missing(method):
        return None
    for causal in (True, False):
        for N in (128, 256, 512):
            problem = Problem(B=2, H=2, N=N, D=16, causal=causal)
            for workload in (Workload.FORWARD_BACKWARD, Workload.FORWARD):
                cell = Cell(method=name, problem=problem, workload=workload)
                if not method.refusal(cell):
                    return cell
    return None


def raw_of(method: type[Attention], p: Problem) -> tuple[Tensor, ...]:
    return method.draws(p, generator())


def same(a: tuple[Tensor, ...], b: tuple[Tensor, ...]) -> bool:
    return len(a) == len(b) and all(torch.equal(x, y) and x.stride() == y.stride() for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("name", NAMES)
class TestEveryMethod:
    def test_it_names_each_projection_once_and_has_values(self, name: str) -> None:
        found = registry.load(name).projections(P)
        names = [each.name for each in found]
        assert len(set(names)) == len(names)
        assert {"q", "k", "v"} <= set(names) or {"qk", "v"} <= set(names)
        assert {each.name: each.width for each in found}["v"] == P.M

    def test_inputs_are_what_it_admits_of_draws(self, name: str) -> None:
        method = registry.load(name)
        raw = raw_of(method, P)
        assert [x.shape for x in raw] == [(2, each.heads, 33, each.width) for each in method.projections(P)]
        admitted, inputs = method.admit(P, *raw), method.inputs(P, generator())
        if name.removesuffix("_fla").removesuffix("_fla_naive") in GATED:
            # its decays start at a pace that is drawn after all tokens
            admitted, inputs = admitted[:-1], inputs[:-1]
        assert same(admitted, inputs)

    def test_it_keeps_its_layout(self, name: str) -> None:
        method = registry.load(name)
        for x in method.admit(P, *raw_of(method, P)):
            assert (x.transpose(1, 2) if method.layout is Layout.BNHD else x).is_contiguous()

    def test_a_token_alone_is_admitted_as_among_others(self, name: str) -> None:
        method = registry.load(name)
        raw = raw_of(method, P)
        together, alone = method.admit(P, *raw), method.admit(P, *(x[1:, :, 5:6] for x in raw))
        for x, one in zip(together, alone, strict=True):
            torch.testing.assert_close(x[1:, :, 5:6], one)

    def test_no_token_at_all_is_admitted(self, name: str) -> None:
        method = registry.load(name)
        assert {x.shape[2] for x in method.admit(P, *(x[:, :, :0] for x in raw_of(method, P)))} == {0}


# a compiler is started for these
SLOW = {Tier.COMPILED}
ON_A_CPU = [
    pytest.param(cell, id=name, marks=[pytest.mark.slow] if registry.load(name).tier in SLOW else [])
    for name in NAMES
    if (cell := runnable(name)) is not None
]


@pytest.mark.parametrize("cell", ON_A_CPU)
def test_from_any_numbers_to_an_output_and_gradients_back_to_all_of_them(cell: Cell) -> None:
    method = registry.build_for(cell)
    backward = cell.workload is Workload.FORWARD_BACKWARD
    # FlexAttention knows no backward on a CPU, and refuses what asks for one
    raw = [x.mul_(3).requires_grad_(backward) for x in raw_of(type(method), cell.problem)]
    o = method(*type(method).admit(cell.problem, *raw))
    assert o.shape == (2, 2, cell.problem.N, 16)
    assert o.isfinite().all()
    if backward:
        gradients = torch.autograd.grad(o, raw, torch.randn(o.shape, generator=generator(4)))
        for projection, gradient in zip(type(method).projections(cell.problem), gradients, strict=True):
            assert gradient.isfinite().all(), projection.name
            assert gradient.abs().max() > 0, projection.name


def test_most_methods_run_here() -> None:
    assert len(ON_A_CPU) > 30


def test_only_the_softmax_without_a_cache_computes_its_prefix_anew() -> None:
    assert [name for name in NAMES if registry.load(name).recomputes] == ["softmax.recompute"]


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


@pytest.mark.parametrize("name", sorted(GATED))
def test_heads_of_a_model_forget_at_paces_of_their_own(name: str) -> None:
    method = registry.load(name)
    tokens = method.admit(P, *(torch.zeros(1, each.heads, 1, each.width) for each in method.projections(P)))
    decays = tokens[-1].reshape(P.H, -1)
    assert (decays < 0).all()
    assert len(set(decays.flatten().tolist())) == decays.numel()
    half = method.admit(P, *(torch.zeros(1, each.heads, 1, each.width).half() for each in method.projections(P)))[-1]
    assert half.dtype is torch.float16
    torch.testing.assert_close(half.flatten().float(), decays.flatten(), rtol=1e-3, atol=1e-4)
