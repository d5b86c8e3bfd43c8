"""Causal linear attention in plain torch, chunked over the sequence.

B batch, H heads, K heads of k and v, N tokens, L tokens of a chunk, D query/key width, C width of φ, M value width, W value
width with its column of ones.
"""

import torch
from torch import Tensor

from attnbench.api import Cell, Cost, Problem, Scalar, Workload

from ...partial.heads import by_token
from ...partial.on_paper import on_paper
from ...recurrence.parts import refuse_bad_chunk
from ..family import LinearFamily
from ..work import Sizes, decoding_cost, linear_cost
from .causal_product import causal_linear_attention, spacing
from .segments import groups, segments


class ChunkedLinear(LinearFamily):
    """Causal linear attention o_i = φ(q_i)ᵀ S_i / (φ(q_i)ᵀ z_i + eps), in O(N (L + D) M).

    Katharopoulos et al. 2020, eq. 9-12; φ(x) = elu(x) + 1 is their eq. 7. No 1/√D. Each chunk adds the masked product within it
    to the state carried from those before; exact at any N. Raises ValueError where chunk < 1 or eps < 0.
    """

    causal_only = True

    def __init__(
        self,
        problem: Problem,
        chunk: int = 64,
        feature_map: str = "elu_plus_one",
        eps: float | None = None,
        features: int | None = None,
    ) -> None:
        super().__init__(problem, feature_map, eps, features)
        refuse_bad_chunk(chunk)
        self.chunk = chunk

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Refuse the feature map that normalises each channel by itself."""
        if cell.params.get("feature_map") == "efficient":
            return (
                "each channel of the keys is normalised over the keys so far by itself, which no product within a chunk can do "
                "without overflow; linear.recurrent does it"
            )
        return None

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count L (C + W) multiplications within a chunk and C W from the state per query, C W to it per key, and those of φ.

        The backward repeats the products of φ(q) φ(k) and of the state, that of keys between kept states twice, and adds
        its own. Raises TypeError or ValueError on bad parameters.
        """
        method = on_paper(cls, problem, params)
        s, N, tail = Sizes(problem, method), problem.N, problem.N % method.chunk
        if workload.decodes:
            return decoding_cost(s, workload)
        C, wide = s.C, s.wide
        forward, backward = method.phi.flops(problem.D)
        pairs = problem.B * problem.H * ((N - tail) * method.chunk + tail * tail)
        work = 2.0 * (pairs * (C + wide) + (s.queries + s.keys) * C * wide) + (s.queries + s.keys) * forward
        if workload is Workload.FORWARD_BACKWARD:
            again = _summed_again(s, method.chunk)
            through_states = (2 * s.queries + 3 * s.keys + again) * C * wide
            work += 2.0 * (pairs * (3 * C + 2 * wide) + through_states) + again * forward
            work += (s.queries + s.keys) * (forward + backward)
        return linear_cost(s, workload, work)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *, key_mask: Tensor | None = None) -> Tensor:
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M] -> [B, H, N, M], any N, differentiable once."""
        terms = self.terms(key_mask, k.shape[1])
        o = causal_linear_attention(by_token(q, k.shape[1]), k.flatten(0, 1), v.flatten(0, 1), terms, self.chunk)
        o_BHNM: Tensor = o.transpose(1, 2).reshape(*q.shape[:3], -1)
        return o_BHNM


def _summed_again(s: Sizes, chunk: int) -> int:
    """Count the keys that the backward sums up on its way from one kept state to the next, as sequences are cut on a CPU."""
    p, found = s.p, 0
    q = torch.empty(p.B * p.kv_heads, p.N, p.H // p.kv_heads, p.D, device="meta")
    for heads in groups(q):
        parts = segments(q[heads], s.C, chunk)
        every = spacing(len(parts), s.C * s.wide, p.N * p.M)
        again = (part for i, part in enumerate(parts[:-1], 1) if i % every)
        found += (heads.stop - heads.start) * sum(part.stop - part.start for part in again)
    return found
