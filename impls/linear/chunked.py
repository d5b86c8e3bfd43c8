"""Causal linear attention in plain torch, chunked over the sequence.

B batch, H heads, N tokens, L tokens of a chunk, D query/key width, M value width.
"""

import torch
from torch import Tensor

from attnbench.api import Attention, Cell, Cost, Problem, Scalar, Workload, dense_flops, io_bytes

from .causal_product import causal_linear_attention
from .parameters import refuse_bad_chunk, refuse_bad_eps
from .reference import linear_attention
from .segments import accumulator, arithmetic, segments, width


class ChunkedLinear(Attention):
    """Causal linear attention o_i = φ(q_i)ᵀ S_i / (φ(q_i)ᵀ z_i + eps), in O(N (L + D) M).

    Paper: Katharopoulos et al. 2020, eq. 9-12; φ(x) = elu(x) + 1 is their eq. 7. No 1/√D. Each chunk adds the masked
    product within it to the state carried from those before; exact at any N. Raises ValueError where chunk < 1 or eps < 0.
    """

    paper = "arXiv:2006.16236"

    def __init__(self, problem: Problem, chunk: int = 64, eps: float = 1e-6) -> None:
        super().__init__(problem)
        refuse_bad_chunk(chunk)
        refuse_bad_eps(eps)
        self.chunk, self.eps = chunk, eps

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Only the causal form, and as many heads of k and v as of q."""
        if not cell.problem.causal:
            return "chunks are for the causal form; linear.full does the one without a mask"
        if cell.problem.kv_heads != cell.problem.H:
            return "heads of k and v that serve several heads of q are not implemented; kv_heads must equal H"
        return None

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """FLOPs and bytes. The peak is that of a CPU; a GPU walks in larger segments.

        Raises TypeError or ValueError on bad parameters.
        """
        chunk = cls(problem, **params).chunk  # type: ignore[arg-type]
        p, trains = problem, workload is Workload.FORWARD_BACKWARD
        passes, tokens = (3.0 if trains else 1.0), p.B * p.H * p.N
        return Cost(
            nominal_flops=passes * dense_flops(p),
            exact_flops=passes * 4.0 * tokens * p.D * p.M,
            executed_flops=_executed(p, chunk, trains),
            traffic_bytes=io_bytes(p, workload),
            peak_bytes=_peak(p, chunk, trains),
        )

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """[B, H, N, D], [B, H, N, D], [B, H, N, M] -> [B, H, N, M], any N, differentiable once."""
        o = causal_linear_attention(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), self.chunk, self.eps)
        o_BHNM: Tensor = o.unflatten(0, v.shape[:2])
        return o_BHNM

    def reference(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """The quadratic form of the same definition, with the same eps."""
        return linear_attention(q, k, v, causal=True, eps=self.eps)


def _executed(p: Problem, chunk: int, trains: bool) -> float:
    """With W = M and the column of ones: L² (D + W) within a chunk and 2 L D W through the state, times 2 B H.

    The backward does the products of q k and of the state again, and its own.
    """
    wide, tail = width(p.M), p.N % chunk
    pairs = (p.N - tail) * chunk + tail * tail
    work = pairs * (p.D + wide) + 2 * p.N * p.D * wide
    if trains:
        work += pairs * (3 * p.D + wide + p.M) + p.N * p.D * (4 * wide + p.M)
    return 2.0 * p.B * p.H * work


def _peak(p: Problem, chunk: int, trains: bool) -> float:
    """Output, one segment's scratch and, in the backward, three gradients, the denominators and a state for each segment."""
    heads, wide, dtype = p.B * p.H, width(p.M), getattr(torch, p.dtype)
    stored, size = p.dtype.bytes, arithmetic(dtype).itemsize
    cut = segments(p.N, heads, chunk, torch.device("cpu"))
    rows = heads * (cut[0].stop - cut[0].start)
    met, state = rows // cut[0].chunk * p.D * wide * size, heads * p.D * wide * accumulator(dtype).itemsize
    if not trains:
        scratch = rows * (2 * p.D + wide) * size + met + max(met, rows * (wide + cut[0].chunk) * size)
        return float(heads * p.N * p.M * stored + scratch + state)
    scratch = rows * (4 * p.D + 2 * wide + p.M + 2 * cut[0].chunk) * size + 2 * met
    kept = heads * p.N * (2 * (p.D + p.M) * stored + size) + (len(cut) + 2) * state
    return float(kept + scratch)
