"""Softmax attention by torch's own fused kernels.

B batch, H heads, K heads of k and v, N tokens, D query/key width, M value width.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor

from attnbench.api import Attention, Cost, Layout, Problem, Scalar, Tier, Workload, default_scale, dense_flops, io_bytes

from .reference import softmax_attention


class SdpaSoftmax(Attention):
    """`F.scaled_dot_product_attention`, with whichever backend torch chooses for the problem.

    Algorithm where fused: Dao et al. 2022, in O(N²) time and O(N) memory. Which backend ran is read with
    `observe`, complete once that has closed; force one from outside with `torch.nn.attention.sdpa_kernel`.
    """

    paper = "arXiv:2205.14135"
    tier = Tier.LIBRARY
    layout = Layout.BNHD  # what the fused kernels read, write and return gradients in

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.causal, self.grouped = problem.causal, problem.kv_heads != problem.H
        self.scale = default_scale(problem)

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """FLOPs and bytes; least work of any backend, so that no honest time can lie below the floor.

        A fused backward computes the scores again: five products for the forward's two (Dao et al. 2022, appendix B).
        The peak is that of the fused kernels where M = D, and of the materialised one elsewhere, as on a CPU;
        without the kernel's own scratch (on a CPU about 0.6 MB a thread). Raises TypeError on any parameter.
        """
        cls(problem, **params)
        trains, fused = workload is Workload.FORWARD_BACKWARD, problem.M == problem.D
        passes = 3.0 if trains else 1.0
        return Cost(
            nominal_flops=passes * dense_flops(problem),
            exact_flops=passes * dense_flops(problem),
            executed_flops=(3.5 if trains and fused else passes) * dense_flops(problem),
            traffic_bytes=io_bytes(problem, workload),
            peak_bytes=_fused_peak(problem, trains) if fused else _math_peak(problem, trains),
        )

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """[B, H, N, D], [B, K, N, D], [B, K, N, M] -> [B, H, N, M], differentiable."""
        return F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, scale=self.scale, enable_gqa=self.grouped)

    def reference(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Vaswani et al. 2017, eq. 1, literally."""
        return softmax_attention(q, k, v, causal=self.causal)

    @contextmanager
    def observe(self) -> Iterator[dict[str, Scalar]]:
        """Record under `backend` what ran inside: flash_cpu, flash, efficient, cudnn, math, …; no call, no key."""
        facts: dict[str, Scalar] = {}
        # a dispatch mode would import a second's worth of modules first; this profiler is at hand
        with torch.autograd.profiler.profile() as profiler:
            yield facts
        assert profiler.kineto_results is not None
        names = {event.name().removeprefix("aten::") for event in profiler.kineto_results.events()}
        if ran := [backend for name, backend in _BACKENDS.items() if name in names]:
            facts["backend"] = ran[-1]  # a fused one where both names are seen


_BACKENDS = {
    "_scaled_dot_product_attention_math": "math",
    "_scaled_dot_product_flash_attention_for_cpu": "flash_cpu",
    "_scaled_dot_product_flash_attention": "flash",
    "_scaled_dot_product_efficient_attention": "efficient",
    "_scaled_dot_product_cudnn_attention": "cudnn",
    "_scaled_dot_product_fused_attention_overrideable": "overrideable",
}


def _fused_peak(p: Problem, trains: bool) -> float:
    """Output and the logsumexp of each row, at least float32; backward: dq, dk and dv beside them."""
    output = p.B * p.H * p.N * (p.M * p.dtype.bytes + max(4, p.dtype.bytes))
    gradients = p.B * p.N * (p.H * p.D + p.kv_heads * (p.D + p.M)) * p.dtype.bytes
    return float(output + (gradients if trains else 0))


def _math_peak(p: Problem, trains: bool) -> float:
    """The materialised path: scores and probabilities beside q and k scaled, in at least float32.

    Forward: a byte per score marks rows with nothing to see, and there is the mask. Backward: a third square, o and dv.
    """
    wide, square = max(4, p.dtype.bytes), p.B * p.H * p.N * p.N
    tokens = p.B * p.H * p.N
    if trains:
        return float(wide * (3 * square + 2 * tokens * (p.D + p.M)))
    return float(wide * (2 * square + tokens * p.D + p.causal * p.N * p.N) + square)
