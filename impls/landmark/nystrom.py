"""Nyströmformer: softmax attention through landmarks.

B batch, H heads, K heads of k and v, N tokens, S landmarks, D query/key width, M value width, T tokens of a convolution.
"""

import torch
from torch import Tensor, nn

from attnbench.api import Attention, Causality, Cost, Layout, Problem, Scalar, Workload, io_bytes, nominal_flops

from ..partial.fused import attend
from ..partial.heads import of_each_head
from ..partial.softmax import sums
from .options import Options
from .pseudo_inverse import pseudo_inverse
from .reference import convolve, convolved_rows, nystrom_attention, nystrom_rows
from .segments import beside_means


class Nystrom(Attention):
    """o = softmax(q k̃ᵀ / √D) A⁺ softmax(q̃ kᵀ / √D) v, A = softmax(q̃ k̃ᵀ / √D), q̃ and k̃ the means of S segments: O(N S).

    Xiong et al. 2021, algorithm 1. `landmarks` is S, at most N; `iterations` of third order compute A⁺, in float32 at least.
    Where S does not divide N, the first N mod S segments have one more token. `convolution_kernel` T, if not 0, adds a
    depthwise convolution of v over T tokens to o, with T weights for each head: the paper's residual. Both long softmaxes are
    torch's fused attention. Raises ValueError on bad parameters.
    """

    paper = "arXiv:2102.03902"
    causality = Causality.NONE
    layout = Layout.BNHD  # the order that the fused kernels read, write and return gradients in
    because = "a landmark is a mean over a segment, and its inverse mixes all segments"

    def __init__(self, problem: Problem, landmarks: int = 64, iterations: int = 6, convolution_kernel: int = 0) -> None:
        super().__init__(problem)
        self.options = Options(landmarks, iterations, convolution_kernel)
        self.register_parameter("kernel", _drawn(problem, convolution_kernel) if convolution_kernel else None)

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count FLOPs and bytes: both long softmaxes are fused, and computed again in the backward.

        A depthwise convolution is no matrix product, so it counts no FLOPs. Raises TypeError or ValueError on bad parameters.
        """
        p, options, trains = problem, Options(**params), workload is Workload.FORWARD_BACKWARD  # type: ignore[arg-type]
        rows, S, passes = float(p.B * p.H * p.N), options.segments(p.N), 3.0 if trains else 1.0
        small = passes * p.B * p.H * (2.0 * S * S * (p.D + p.M) + options.iterations * 8.0 * S**3)
        weights = p.H * options.convolution_kernel * p.dtype.bytes
        return Cost(
            nominal_flops=nominal_flops(p, workload),
            exact_flops=passes * rows * 4.0 * S * (p.D + p.M) + small,
            executed_flops=(3.5 if trains else 1.0) * rows * 8.0 * S * max(p.D, p.M) + small,
            traffic_bytes=io_bytes(p, workload) + passes * weights,
        )

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M] -> [B, H, N, M], differentiable once."""
        S, (k, v) = self.options.segments(q.shape[2]), of_each_head(q, k, v)
        q, q_landmarks = _with_landmarks(q, S)
        k, k_landmarks = _with_landmarks(k, S)
        inverse = pseudo_inverse(_between(q_landmarks, k_landmarks).flatten(0, 1), self.options.iterations)
        # multiplied from the right, so that nothing of N rows has S columns
        summary = inverse.unflatten(0, q.shape[:2]) @ attend(q_landmarks, k, v).to(inverse.dtype)
        o = attend(q, k_landmarks, summary.to(v.dtype))
        return o if self.kernel is None else o + convolve(v, self.kernel)

    def reference(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Compute the product of the three matrices and v, with the same iterations."""
        k, v = of_each_head(q, k, v)
        o = nystrom_attention(q, k, v, self.options.segments(q.shape[2]), self.options.iterations)
        return o if self.kernel is None else o + convolve(v, self.kernel)

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Compute the product for the queries `at`, from the right."""
        o = nystrom_rows(at, q, k, v, self.options.segments(len(q)), self.options.iterations)
        return o if self.kernel is None else o + convolved_rows(at, v, self.kernel[head])

    kernel: nn.Parameter | None
    """Weights [H, T] of the convolution, or None without one."""


def _with_landmarks(x: Tensor, segments: int) -> tuple[Tensor, Tensor]:
    """Return [B, H, N, D] and its means [B, H, S, D]."""
    x_BNHD, means = beside_means(x.transpose(1, 2), segments)
    return x_BNHD.transpose(1, 2), means.transpose(1, 2)


def _between(q_landmarks: Tensor, k_landmarks: Tensor) -> Tensor:
    """Compute A [B, H, S, S], in float32 at least, because it is inverted."""
    scores = q_landmarks @ k_landmarks.mT * q_landmarks.shape[-1] ** -0.5
    between: Tensor = scores.softmax(-1, dtype=sums(scores.dtype))
    return between


def _drawn(problem: Problem, length: int) -> nn.Parameter:
    """Draw from uniform(-1/√T, 1/√T), as torch initialises a depthwise convolution."""
    weights = torch.empty(problem.H, length).uniform_(-(length**-0.5), length**-0.5)
    return nn.Parameter(weights.to(getattr(torch, problem.dtype)))
