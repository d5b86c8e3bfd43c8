"""Every method drops into a model: from unconstrained tensors to what its forward takes, and back by gradients."""

import pytest
import torch
from torch import Tensor

from attnbench import registry
from attnbench.api import Attention, Cell, Layout, Problem, Tier, Workload
from tests.impls.contract.subjects import NAMES

P = Problem(B=2, H=4, N=33, D=8, M=12, causal=True)


def generator(seed: int = 3) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def runnable(name: str) -> Cell | None:
    """A small cell that the method runs on a CPU, backward included; None where there is none."""
    method = registry.load(name)
    asked = (
        Cell(method=name, problem=Problem(B=2, H=2, N=N, D=16, causal=causal), workload=workload)
        for causal in (True, False)
        for N in (128, 256, 512)
        for workload in (Workload.FORWARD_BACKWARD, Workload.FORWARD)
    )
    return None if registry.missing(method) else next((cell for cell in asked if not method.refusal(cell)), None)


def same(a: tuple[Tensor, ...], b: tuple[Tensor, ...]) -> bool:
    return len(a) == len(b) and all(torch.equal(x, y) and x.stride() == y.stride() for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_each_projection_is_named_once_and_inputs_are_what_is_admitted_of_draws(name: str) -> None:
    method: type[Attention] = registry.load(name)
    found, source = method.projections(P), generator()
    raw = method.draws(P, source)
    widths = {each.name: each.width for each in found}
    assert len(widths) == len(found)
    if {"latent", "kv"} & set(widths):  # from which keys and values are made, or which is both
        assert found[0].name == "q"
    else:
        assert {"q", "k", "v"} <= set(widths) or {"qk", "v"} <= set(widths)
        assert widths["v"] == P.M
    assert [x.shape for x in raw] == [(2, each.heads, 33, each.width) for each in found]
    assert same(method.admit(P, *raw, **method.drawn_once(P, source)), method.inputs(P, generator()))


@pytest.mark.parametrize("name", NAMES)
def test_any_number_of_tokens_is_admitted_in_the_layout_and_each_as_if_it_were_alone(name: str) -> None:
    method: type[Attention] = registry.load(name)
    raw = method.draws(P, generator())
    together, alone = method.admit(P, *raw), method.admit(P, *(x[1:, :, 5:6] for x in raw))
    for x, one in zip(together, alone, strict=True):
        assert (x.transpose(1, 2) if method.layout is Layout.BNHD else x).is_contiguous()
        torch.testing.assert_close(x[1:, :, 5:6], one)
    assert {x.shape[2] for x in method.admit(P, *(x[:, :, :0] for x in raw))} == {0}


ON_A_CPU = [
    # a compiler is started for some
    pytest.param(cell, id=name, marks=[pytest.mark.slow] if registry.load(name).tier is Tier.COMPILED else [])
    for name in NAMES
    if (cell := runnable(name)) is not None
]


@pytest.mark.parametrize("cell", ON_A_CPU)
def test_from_any_numbers_to_an_output_and_gradients_back_to_all_of_them(cell: Cell) -> None:
    method = registry.build_for(cell)
    backward = cell.workload is Workload.FORWARD_BACKWARD
    # FlexAttention knows no backward on a CPU, and refuses what asks for one
    raw = [x.mul_(3).requires_grad_(backward) for x in type(method).draws(cell.problem, generator())]
    o = method(*type(method).admit(cell.problem, *raw))
    assert o.shape == (2, 2, cell.problem.N, 16)
    assert o.isfinite().all()
    if backward:
        g = torch.randn(o.shape, generator=generator(4))
        gradients = torch.autograd.grad(o, raw, g)
        for projection, x, gradient in zip(type(method).projections(cell.problem), raw, gradients, strict=True):
            assert gradient.isfinite().all(), projection.name
            if not gradient.any():
                # as its definition says
                o = method.reference(*type(method).admit(cell.problem, *raw))
                assert not torch.autograd.grad(o, x, g)[0].any(), projection.name
