"""Every method drops into a model: from unconstrained tensors to what its forward takes, and back by gradients."""

import pytest
import torch
from torch import Tensor

from attnbench import registry
from attnbench.api import Attention, Cell, Layout, Problem, Tier, Workload
from tests.impls.contract.subjects import NAMES

P = Problem(B=2, H=4, N=33, D=8, M=12, causal=True)
PACED = {f"delta.{name}" for name in ("gated_deltanet", "kda", "gated_deltanet2", "comba", "gated_deltaproduct", "mesa")}
"""Their decays start at a pace that is drawn after all tokens."""


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
        if {"latent", "kv"} & set(names):  # from which keys and values are made, or which is both
            assert names[0] == "q"
        else:
            assert {"q", "k", "v"} <= set(names) or {"qk", "v"} <= set(names)
            assert {each.name: each.width for each in found}["v"] == P.M

    def test_inputs_are_what_it_admits_of_draws(self, name: str) -> None:
        method = registry.load(name)
        raw = raw_of(method, P)
        assert [x.shape for x in raw] == [(2, each.heads, 33, each.width) for each in method.projections(P)]
        admitted, inputs = method.admit(P, *raw), method.inputs(P, generator())
        if name.removesuffix("_fla").removesuffix("_fla_naive") in PACED:
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
        g = torch.randn(o.shape, generator=generator(4))
        gradients = torch.autograd.grad(o, raw, g)
        for projection, x, gradient in zip(type(method).projections(cell.problem), raw, gradients, strict=True):
            assert gradient.isfinite().all(), projection.name
            if not gradient.any():
                # as its definition says
                o = method.reference(*type(method).admit(cell.problem, *raw))
                assert not torch.autograd.grad(o, x, g)[0].any(), projection.name
