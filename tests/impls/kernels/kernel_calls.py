"""Calls of our Triton kernels, each beside its definition: methods as they are, the operator of vq.triton with any codes."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from attnbench import registry
from attnbench.api import Problem, Workload
from tests.impls.kernels.conftest import Ask

Params = dict[str, Any]


@dataclass(frozen=True)
class OfMethod:
    """A Triton method on a problem."""

    name: str
    params: Params = field(default_factory=dict)
    shape: Params = field(default_factory=dict)
    share: int = 512
    off_by = 4e-6

    def __str__(self) -> str:
        return f"{self.name} {self.params} {self.shape}"

    def with_shape(self, **shape: Any) -> "OfMethod":
        return OfMethod(self.name, self.params, {**self.shape, **shape}, self.share)

    @cached_property
    def problem(self) -> Problem:
        return Problem(**{"B": 1, "H": 1, "N": 64, "D": 16, "causal": True, **self.shape})

    @cached_property
    def method(self) -> Any:
        torch.manual_seed(0)
        kind: Any = registry.load(self.name)
        return kind(self.problem, **self.params)

    def drawn(self) -> tuple[list[Tensor], Tensor]:
        """Inputs, and dL/do."""
        generator, p = torch.Generator().manual_seed(7), self.problem
        inputs = list(type(self.method).inputs(p, generator))
        return inputs, torch.randn(p.B, p.H, p.N, p.M, generator=generator).to(inputs[0].dtype)

    def given(self, inputs: list[Tensor]) -> Params:
        choices = self.method.choose(*inputs)
        return {} if choices is None else {"choices": choices}

    def put(
        self, ask: Ask, inputs: list[Tensor], what: str = "evaluate", keywords: Params | None = None, **more: Any
    ) -> list[Any]:
        """By the kernels: the output, and with a g the gradients."""
        about = {"name": self.name, "params": self.params, "problem": self.problem.model_dump(), "share": self.share}
        keywords = self.given(inputs) if keywords is None else keywords
        state = self.method.state_dict()
        return ask(what, **about, state=state, inputs=[x.detach() for x in inputs], keywords=keywords, **more)

    def defined(self, inputs: list[Tensor], g: Tensor, **keywords: Any) -> list[Tensor]:
        """By the definition, in the dtype of the inputs."""
        leaves = [x.detach().requires_grad_() for x in inputs]
        choices = self.given([x.to(getattr(torch, self.problem.dtype)) for x in inputs])
        o = self.method.reference(*leaves, **{**choices, **keywords})
        return [o.detach(), *torch.autograd.grad(o, leaves, g.expand_as(o).to(o.dtype))]

    def exact(self, inputs: list[Tensor], g: Tensor, **keywords: Any) -> list[Tensor]:
        """The same in float64."""
        return self.defined([x.double() for x in inputs], g.double(), **keywords)

    def cost(self, workload: Workload) -> Any:
        return type(self.method).cost(self.problem, self.params, workload)


How = tuple[int, bool, bool]
"""Tokens of a block, causal, whether gradients go through the table."""


@dataclass(frozen=True)
class OfOperator:
    """The operator of vq.triton on q, k, v, codes and a codebook, with keys that are not those of the codes."""

    how: How
    shape: dict[str, int] = field(default_factory=dict)
    dtype: torch.dtype = torch.float32
    off_by = 1e-5

    def __str__(self) -> str:
        return f"vq {self.how} {self.shape}"

    def drawn(self) -> tuple[list[Tensor], Tensor]:
        """Inputs, and dL/do."""
        sizes = {"B": 1, "H": 1, "N": 40, "D": 16, "M": 16, "S": 6, **self.shape}
        B, H, N, D, M, S = (sizes[name] for name in "BHNDMS")
        generator, kv_heads = torch.Generator().manual_seed(7), sizes.get("kv_heads", H)
        each = ((H, D), (kv_heads, D), (kv_heads, M), (H, M))
        q, k, v, g = (torch.randn(B, heads, N, width, generator=generator).to(self.dtype) for heads, width in each)
        codes = torch.randint(S, (B, kv_heads, N), generator=generator)
        return [q, k, v, codes, torch.randn(kv_heads, S, D, generator=generator).to(self.dtype)], g

    def put(self, ask: Ask, inputs: list[Tensor], what: str = "evaluate", **more: Any) -> list[Any]:
        """By the kernels: the output, and with a g the gradients of q, k and v."""
        operator = "attnbench_impls.vq.triton.product:vq_attention"
        return ask(what, operator=operator, how=self.how, inputs=[x.detach() for x in inputs], **more)

    def defined(self, inputs: list[Tensor], g: Tensor) -> list[Tensor]:
        """From all scores; Lingle 2023, theorems 3.4 and 3.7."""
        of_groups = tuple(x.detach().requires_grad_() for x in inputs[:3])
        (codes, codebook), (block, causal, through_table) = inputs[3:], self.how
        rows = torch.stack([codebook[h][codes[:, h]] for h in range(codes.shape[1])], 1)
        q, k, v, rows = (x.repeat_interleave(inputs[0].shape[1] // x.shape[1], 1) for x in (*of_groups, rows))
        i = torch.arange(q.shape[2])
        near = (i[:, None] // block - i // block <= 1) & causal
        scores = torch.where(near, q @ k.mT, q @ rows.mT)
        weights = scores.masked_fill((i[:, None] < i) & causal, -torch.inf).softmax(-1)
        o = weights * near @ v + weights * ~near @ (v if through_table else v.detach())
        gradients = torch.autograd.grad(o, of_groups, g.expand_as(o).to(o.dtype), allow_unused=True, materialize_grads=True)
        return [o.detach(), *gradients]

    def exact(self, inputs: list[Tensor], g: Tensor) -> list[Tensor]:
        """The same in float64."""
        return self.defined([x.double() if x.is_floating_point() else x for x in inputs], g.double())


Kernels = OfMethod | OfOperator


def assert_close(got: list[Tensor], want: list[Tensor], off_by: float) -> None:
    """Within float32's rounding of sums of this length, relative to the largest."""
    for a, b in zip(got, want, strict=True):
        assert float((a.double() - b).abs().max()) <= off_by * max(1.0, float(b.abs().max()))
