"""The products of one segment of chunks: what its queries sum up, and the gradients of that.

B batch and heads of k folded, R heads of q that share one, S chunks of L tokens in the segment, T = S L, C width of φ, M value
width, W value width with its column of ones (segments.py). Where the log scale of the keys rises, `shares` (gate.py) say how
much of them remains.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from .gate import Gate, gate
from .keys import Scale, Terms, keys_so_far, queries
from .prefix import states_after, states_before
from .segments import Segment


@dataclass(frozen=True)
class Chunks:
    """One segment: φ(q) [BS, L R, C], φ(k) [BS, L, C], [v | 1] [BS, L, W], the shares that remain, the log scale after it."""

    fq: Tensor
    fk: Tensor
    va: Tensor
    shares: Gate | None
    scale: Scale

    def states_met(self, state: Tensor) -> Tensor:
        """Compute the state before each chunk [BS, C, W]; updates the given one [B, C, W] past the segment, in place."""
        if self.shares is None:
            return states_before(torch.bmm(self.fk.mT, self.va), state)
        return states_before(torch.bmm(self.fk.mT, self.va * self.shares.add), state, self.shares.carry)

    def states_to_come(self, gw: Tensor, state: Tensor) -> Tensor:
        """Compute Σ φ(q)ᵀ gw over later chunks in the same way, from the other end."""
        if self.shares is None:
            return states_after(torch.bmm(self.fq.mT, gw), state)
        return states_after(torch.bmm(self.fq.mT, gw * self.shares.read), state, self.shares.carry)

    def masked(self, pairs: Tensor) -> Tensor:
        """Mask pairs [BS, L R, L] to keys no later than the query, and apply what remains of them; in place."""
        pairs = pairs if self.shares is None else pairs.mul_(self.shares.pairs)
        rows, L = pairs.shape[1:]
        if rows == L:
            return pairs.tril_()
        token = torch.arange(rows, device=pairs.device).unsqueeze(1) // (rows // L)
        return pairs.masked_fill_(torch.arange(L, device=pairs.device) > token, 0)


def chunks(terms: Terms, segment: Segment, q: Tensor, k: Tensor, values: Tensor, scale: Scale) -> Chunks:
    """Map one segment of q [B, N, R, D] and k [B, N, D]; values are [B, T, W]."""
    fk, scales = keys_so_far(terms, segment, k, scale)
    fq = queries(terms.phi, segment, q)
    # a clone, since a view would keep all scales of the segment
    after = None if scales is None else scales[:, -1:].clone()
    cut = segment.chunks
    return Chunks(cut(fq), cut(fk), cut(values), gate(segment, scale, scales, q.shape[2]), after)


def sums_of_chunks(x: Chunks, state: Tensor) -> Tensor:
    """Compute numerator and denominator of one segment [BS, L R, W]; updates the state [B, C, W] in place.

    Katharopoulos et al. 2020, eq. 9-12, by chunks: the masked product within each, and the state before it.
    """
    met = x.states_met(state)
    sums = torch.bmm(x.masked(torch.bmm(x.fq, x.fk.mT)), x.va)
    return sums.baddbmm_(x.fq, met) if x.shares is None else sums.add_(torch.bmm(x.fq, met).mul_(x.shares.read))


def gradients_of_chunks(x: Chunks, gw: Tensor, state: Tensor, after: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute dφ(q) [BS, L R, C], dφ(k) [BS, L, C] and dv [BS, L, M + 1]; updates both states [B, C, W] in place.

    gw [BS, L R, W] is dL/d[numerator | denominator]. Katharopoulos et al. 2020, eq. 13-15, by chunks, with v widened by ones:
    dφ(q_i) = Σ_{j≤i} (gw_i·va_j) φ(k_j), dφ(k_j) = Σ_{i≥j} (gw_i·va_j) φ(q_i), dv_j = Σ_{i≥j} (φ(q_i)·φ(k_j)) gw_i. Their eq.
    14 is printed with gw_j inside the sum; it is gw_i (their supplement, eq. 27).
    """
    met, to_come = x.states_met(state), x.states_to_come(gw, after)
    pairs = x.masked(torch.bmm(gw, x.va.mT))
    read, add = (gw, x.va) if x.shares is None else (gw * x.shares.read, x.va * x.shares.add)
    dfq = torch.bmm(pairs, x.fk).baddbmm_(read, met.mT)
    dfk = torch.bmm(pairs.mT, x.fq).baddbmm_(add, to_come.mT)
    del pairs, met, read, add
    pairs = x.masked(torch.bmm(x.fq, x.fk.mT))
    dv = torch.bmm(pairs.mT, gw)
    if x.shares is None:
        return dfq, dfk, dv.baddbmm_(x.fk, to_come)
    return dfq, dfk, dv.add_(torch.bmm(x.fk, to_come).mul_(x.shares.add))
