"""A method with its inputs drawn: what it gives, what its definition gives, and what decoding gives."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from attnbench.api import Attention, Problem, laid_out
from attnbench.workloads.decoding import decoded
from attnbench.workloads.setting import unique
from tests.impls.contract.subjects import Variant

Inputs = tuple[Tensor, ...]


def mapped(inputs: Inputs, change: Callable[[Tensor], Tensor]) -> Inputs:
    """Each different tensor changed once: one that is given twice stays one tensor."""
    changed = {id(x): change(x) for x in inputs}
    return tuple(changed[id(x)] for x in inputs)


def turned(inputs: Inputs, a: int, b: int) -> Inputs:
    """The same numbers, with these two dimensions in the other order in memory."""
    return mapped(inputs, lambda x: x.detach().transpose(a, b).contiguous().transpose(a, b).requires_grad_(x.requires_grad))


def inputs_of(method: Attention) -> Inputs:
    """Inputs of a method as a user gets them, from a fixed seed, with gradients asked for."""
    return mapped(type(method).inputs(method.problem, torch.Generator().manual_seed(7)), torch.Tensor.requires_grad_)


class Call:
    """A variant built for a problem, inputs and dL/do from fixed seeds, and the choices that it makes of them."""

    def __init__(self, variant: Variant, problem: Problem, device: str = "cpu", *, trains: bool = False) -> None:
        self.variant, self.problem, self.device = variant, problem, device
        self.method = variant.build(problem, device)
        self.inputs = self.drawn(7)
        # dL/do ~ N(0, 1), in the method's own order in memory
        sizes, dtype = (problem.B, problem.H, problem.N, problem.M), getattr(torch, problem.dtype)
        g = torch.randn(sizes, generator=torch.Generator().manual_seed(11), dtype=torch.float64).to(dtype)
        self.g = laid_out(g, self.method.layout).to(device) if trains or variant.trains(problem, device) else None
        for x in self.inputs if self.g is not None else ():
            x.requires_grad_()
        self.choices: Tensor | None = self.method.choose(*self.inputs)

    def drawn(self, seed: int) -> Inputs:
        """Inputs as a user gets them."""
        inputs = type(self.method).inputs(self.problem, torch.Generator().manual_seed(seed))
        return mapped(inputs, lambda x: x.to(self.device))

    @property
    def off_by(self) -> float:
        """How far off a number may be."""
        return 1e-10 if self.problem.dtype == "float64" else self.variant.method.off_by

    @property
    def orders(self) -> tuple[tuple[int, int], ...]:
        """Dimensions that may be in the other order in memory."""
        return ((1, 2),) if self.variant.method.dense else ((1, 2), (-2, -1))

    @property
    def given(self) -> dict[str, Any]:
        """The choices as a keyword, where there are some."""
        return {} if self.choices is None else {"choices": self.choices}

    @property
    def chooses_alike(self) -> bool:
        """Whether it would make the same choices again: what hashes anew each time does not."""
        return self.choices is None or torch.equal(self.choices, self.method.choose(*self.inputs))

    def forward(self, *inputs: Tensor, **keywords: Any) -> Tensor:
        """The output alone, of these inputs or its own."""
        with torch.no_grad():
            o: Tensor = self.method(*(inputs or self.inputs), **{**self.given, **keywords})
        return o

    def results(self, function: str = "forward", inputs: Inputs = (), g: Tensor | None = None, **keywords: Any) -> list[Tensor]:
        """The output, and where there is a backward the gradients of all inputs and parameters."""
        call = self.method if function == "forward" else self.method.reference
        g = self.g if g is None else g
        return evaluated(call, inputs or self.inputs, g, list(self.method.parameters()), **{**self.given, **keywords})

    def exact(self, **keywords: Any) -> list[Tensor]:
        """The same by the definition, in float64."""
        wide = copy.deepcopy(self.method).to(torch.float64)
        g = None if self.g is None else self.g.double()
        inputs = mapped(self.inputs, lambda x: x.detach().double().requires_grad_(x.requires_grad))
        return evaluated(wide.reference, inputs, g, list(wide.parameters()), **{**self.given, **keywords})

    def measure(self, **keywords: Any) -> tuple[list[Tensor], list[Tensor]]:
        """The definition in the same dtype and in float64, for `no_worse`."""
        eager, exact = self.results("reference", **keywords), self.exact(**keywords)
        if not all(x.isfinite().all() for x in eager):
            # in float16 it overflows at some length, and is no measure any more
            eager = [r + 2**-7 * r.abs().max() for r in exact]
        return eager, exact

    def decoded(self, prompt: int, inputs: Inputs = (), choices: Tensor | None = None) -> Tensor:
        """All outputs, the first by `prefill`, the rest one by one."""
        inputs = mapped(inputs or self.inputs, torch.Tensor.detach)
        return torch.cat([o for _, o in decoded(self.method, inputs, prompt, choices)], dim=2).detach()


def evaluated(
    function: Callable[..., Tensor], inputs: Inputs, g: Tensor | None, parameters: Sequence[Tensor], **keywords: Any
) -> list[Tensor]:
    """The output, and where there is a g the gradient of each different input and of each parameter."""
    if g is None:
        with torch.no_grad():
            return [function(*inputs, **keywords)]
    o = function(*inputs, **keywords)
    leaves = unique([*inputs, *parameters])
    return [o.detach(), *torch.autograd.grad(o, leaves, g, allow_unused=True, materialize_grads=True)]


def same(got: Sequence[Tensor], want: Sequence[Tensor], off_by: float) -> None:
    """Within so much, number by number; where it is more than float64 rounds, as a share of the largest."""
    for a, b in zip(got, want, strict=True):
        share = off_by * max(1.0, float(b.detach().abs().max())) if b.numel() else off_by
        torch.testing.assert_close(a.to(b.dtype), b, rtol=0, atol=share)


def no_worse(got: Sequence[Tensor], eager: Sequence[Tensor], exact: Sequence[Tensor], rounding: float = 0.0) -> None:
    """Within twice the error of the definition in the same dtype, and a few units in the last place of the largest number."""
    for place, (o, e, r) in enumerate(zip(got, eager, exact, strict=True)):
        largest, off, allowed = float(r.abs().max()), _distance(o, r), _distance(e, r)
        slack = 4 * torch.finfo(o.dtype).eps * largest + rounding
        assert off <= 2 * allowed + slack, (
            f"result {place}: {off:.3g} off, the definition {allowed:.3g}, of {largest:.3g} {o.dtype}"
        )


def _distance(a: Tensor, b: Tensor) -> float:
    return float((a.double() - b.double()).abs().max())
