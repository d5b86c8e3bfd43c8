"""A gate that forgets all, as at the end of a document, leaves float32 with the digits that it has without one."""

from copy import deepcopy

import pytest
import torch
from torch import Tensor

from attnbench import Problem, build
from attnbench.api import Attention

GATES = {"gated.mamba2": 3, "gated.gla": 3, "delta.gated_deltanet": 4, "delta.kda": 4, "delta.rwkv7": 3}
"""Where its log decays (of mamba2: its time steps) stand among a method's inputs."""
N, EVERY = 256, 20


def documents(name: str, nats: float) -> tuple[Attention, list[Tensor]]:
    """A method and its inputs, all of whose gates lose that many nats at every 20th token."""
    problem = Problem(B=1, H=2, N=N, D=16, causal=True)
    method = build(name, problem)
    inputs = list(type(method).inputs(problem, torch.Generator().manual_seed(0)))
    if name == "gated.mamba2":
        with torch.no_grad():
            method.A_log.zero_()  # type: ignore[operator]  # a parameter of this one method
    gate = inputs[GATES[name]]
    gate[:, :, EVERY - 1 :: EVERY] = nats if name == "gated.mamba2" else -nats
    return method, inputs


def results(method: Attention, inputs: list[Tensor], by_definition: bool) -> list[Tensor]:
    """Its output and the gradients of a random projection of it, in float64."""
    leaves = [x.clone().requires_grad_() for x in inputs]
    o = method.reference(*leaves) if by_definition else method(*leaves)
    weights = torch.randn(o.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(o.dtype)
    return [x.double() for x in (o.detach(), *torch.autograd.grad(o, leaves, weights))]


@pytest.mark.parametrize("by_definition", [False, True])
@pytest.mark.parametrize("nats", [300.0, 3000.0])
@pytest.mark.parametrize("name", GATES)
def test_what_follows_a_reset_is_as_exact_as_without_one(name: str, nats: float, by_definition: bool) -> None:
    method, inputs = documents(name, nats)
    truth = results(deepcopy(method).double(), [x.double() for x in inputs], by_definition=True)
    for got, right in zip(results(method, inputs, by_definition), truth, strict=True):
        assert torch.linalg.vector_norm(got - right) <= 2e-6 * torch.linalg.vector_norm(right)
