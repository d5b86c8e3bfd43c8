"""What the tests of all attentions share: one way to draw inputs, to run a method and to profile it."""

import sys
from collections.abc import Callable, Iterator, Sequence

import pytest
import torch
from torch import Tensor

from attnbench.api import Attention, Layout

Draw = Callable[[Attention], tuple[Tensor, ...]]
Evaluate = Callable[..., list[Tensor]]


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def inputs_of() -> Draw:
    """Inputs of a method as a user gets them, from a fixed seed, with gradients asked for."""

    def draw(method: Attention) -> tuple[Tensor, ...]:
        tensors = type(method).inputs(method.problem, torch.Generator().manual_seed(7))
        for x in tensors:
            x.requires_grad_()
        return tensors

    return draw


@pytest.fixture
def evaluate() -> Evaluate:
    """The output and the gradient of each different input, by `forward` or `reference`."""

    def run(
        method: Attention, function: str, inputs: Sequence[Tensor], g: Tensor, choices: Tensor | None = None
    ) -> list[Tensor]:
        call = method if function == "forward" else getattr(method, function)
        o = call(*inputs) if choices is None else call(*inputs, choices=choices)
        leaves = list({id(x): x for x in inputs}.values())
        return [o.detach(), *torch.autograd.grad(o, leaves, g)]

    return run


@pytest.fixture
def gradient_of() -> Callable[[Attention], Tensor]:
    """A fixed dL/do ~ N(0, 1), in the method's layout."""

    def draw(method: Attention) -> Tensor:
        p, generator = method.problem, torch.Generator().manual_seed(11)
        g = torch.randn(p.B, p.H, p.N, p.M, generator=generator, dtype=torch.float64).to(getattr(torch, p.dtype))
        return g.transpose(1, 2).contiguous().transpose(1, 2) if method.layout is Layout.BNHD else g

    return draw


@pytest.fixture
def one_thread() -> Iterator[None]:
    """The kernels' scratch grows with the threads; and a setting leaves torch's modes as it set them."""
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision(precision)
    torch.set_grad_enabled(True)


@pytest.fixture(autouse=True)
def _compiled_afresh(request: pytest.FixtureRequest) -> Iterator[None]:
    """torch gives up compiling a function after eight shapes in one process, and no measurement has more than one."""
    yield
    if request.node.get_closest_marker("slow") and "torch._dynamo" in sys.modules:
        torch.compiler.reset()
