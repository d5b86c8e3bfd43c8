"""Softmax attention by SageAttention: scores of queries and keys in 8 bits.

B batch, H heads, K heads of k and v, N tokens, D width of queries, keys and values.
"""

from collections.abc import Callable
from importlib import import_module

import torch
from torch import Tensor

from attnbench.api import HALF, Causality, Cell, Cost, Problem, Scalar, Tier, Workload

from ..exact import ExactSoftmax
from ..work import cost, fused_flops, refuse_parameters

QUERIES, KEYS = 128, 64
"""The tokens of a block that share a scale."""


class SageSoftmax(ExactSoftmax):
    """`sageattn` of the package sageattention: int8 products of queries and keys, float16 products of weights and values.

    Zhang et al. 2024, section 4. Keys are taken less their mean, which no softmax sees, and rounded to 127 steps each way, of
    which the largest number of 64 keys (of 128 queries) is the last. So an output depends on all keys of a block, where causal
    on later ones, and the package's causal form is refused. Its form without a mask counts keys beyond the end with a score of
    0, so N must be a multiple of 64. No backward. From version 2 on the package computes another function on most GPUs.
    """

    paper = "arXiv:2410.02367"
    tier = Tier.TRITON
    is_softmax = False
    requires = ("sageattention>=1.0.6,<2", "triton>=3.0")
    causality = Causality.NONE
    because = "its keys are rounded together with later ones"
    devices = ("cuda",)
    dtypes = HALF
    one_width = True
    widths = (64, 128)

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self._attend: Callable[..., Tensor] = import_module("sageattention").sageattn

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Refuse a backward, widths without kernels, and part of a block."""
        p = cell.problem
        if cell.workload.learns:
            return "the package has no backward"
        if p.D not in {64, 96, 128}:
            return f"its kernels are for widths of 64, 96 and 128: D={p.D}"
        return f"keys beyond the end would count: N={p.N} must be a multiple of {KEYS}" if p.N % KEYS else None

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Compute the cost of a fused kernel, 8-bit products among them. Raises TypeError on any parameter."""
        refuse_parameters(params)
        return cost(problem, workload, executed=fused_flops(problem, workload))

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, D] -> [B, H, N, D]."""
        # the package would take the mean off the caller's own keys, in place
        k = k - k.mean(dim=2, keepdim=True)
        return self._attend(q, k, v, tensor_layout="HND", is_causal=False, sm_scale=self.scale, smooth_k=False)

    def reference(self, q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None = None) -> Tensor:  # noqa: ARG002 - it takes none
        """Compute all scores from rounded queries and keys."""
        group = q.shape[1] // k.shape[1]
        q, k = _rounded(q * self.scale, QUERIES), _rounded(k - k.mean(dim=2, keepdim=True), KEYS)
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        o: Tensor = (q @ k.mT).softmax(-1).to(v.dtype) @ v
        return o

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None = None) -> Tensor:  # noqa: ARG002
        """Compute the same for the queries `at`, which are rounded with those around them."""
        q, k = _rounded(q * self.scale, QUERIES)[at], _rounded(k - k.mean(dim=0, keepdim=True), KEYS)
        o: Tensor = (q @ k.mT).softmax(-1).to(v.dtype) @ v
        return o


def _rounded(x: Tensor, block: int) -> Tensor:
    """Round each block of tokens, [..., N, D], to whole multiples of its largest number over 127, halves away from 0."""
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    parts = []
    for part in x.split(block, dim=-2):
        step = part.abs().amax(dim=(-2, -1), keepdim=True) / 127
        parts.append(torch.copysign((part / step).abs().add(0.5).floor(), part) * step)
    return torch.cat(parts, dim=-2)
