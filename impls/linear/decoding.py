"""Decoding with sums that stand for all earlier tokens, read and written once for each new one.

b batch, H heads, K heads of k and v, R = H / K, n tokens, D query/key width, C width of φ, M value width, G = 1 or C log
scales. Katharopoulos et al. 2020, section 3.4, eq. 16-20.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..partial.heads import by_token, of_each_head
from .eager.causal_product import attend, cut, outputs
from .eager.keys import Terms, nothing_yet, sum_of_keys
from .eager.recurrent_product import attend_by_tokens
from .eager.segments import width
from .maps.exponential import Exponential
from .maps.feature_map import FeatureMap

CHUNK = 64
"""Number of tokens that `extend` takes in one product."""


@dataclass(frozen=True)
class LinearState:
    """The state of decoding after the tokens so far.

    `sums` [bK, C, M + 1] = Σ φ(k) [v | 1]ᵀ, float32 at least; `token` [bK, 1, M + 1] is memory for the next [v | 1]; `scale`
    [bK, G, 1] is the log scale taken out of the sums (exponential.py), where the map has one.
    """

    sums: Tensor
    token: Tensor
    scale: Tensor | None = None


def state_of(terms: Terms, k: Tensor, v: Tensor) -> LinearState:
    """Compute the state after tokens [b, K, n, D], [b, K, n, M], n ≥ 0."""
    k, v = k.detach().flatten(0, 1), v.detach().flatten(0, 1)
    wide, kind = v.shape[-1] + 1, terms.phi.sums(k.dtype)
    begin = sum_of_keys if k.shape[1] else nothing_yet
    sums, scale = begin(terms, k, v, wide, kind)
    return LinearState(
        sums, sums.new_ones(sums.shape[0], 1, wide), None if scale is None else scale.mT.to(sums.dtype).contiguous()
    )


def step(phi: FeatureMap, eps: float, inputs: tuple[Tensor, Tensor, Tensor], state: LinearState) -> tuple[Tensor, LinearState]:
    """Attend one token: [b, H, 1, D], [b, K, 1, D], [b, K, 1, M] -> [b, H, 1, M], and the state, updated in place."""
    q, k, v = (x.detach() for x in inputs)
    sums, token, M = state.sums, state.token, v.shape[-1]
    heads, kind = sums.shape[0], sums.dtype
    features = _take_in(phi, k.reshape(heads, 1, -1).to(kind), state)
    token[..., :M] = v.reshape(heads, 1, M)
    sums.addcmul_(features.mT, token)
    read = torch.bmm(phi.value(q.reshape(heads, -1, q.shape[-1]).to(kind)), sums)
    return (read[..., :M] / (read[..., M:] + eps)).view(*q.shape[:3], M).to(v.dtype), state


def _take_in(phi: FeatureMap, k: Tensor, state: LinearState) -> Tensor:
    """Compute φ(k) [bK, 1, C] at the scale to which it raises the state, and rescale the state."""
    if not isinstance(phi, Exponential) or state.scale is None:
        return phi.value(k)
    logs = phi.logs(k)
    after = phi.join(state.scale, phi.total(logs).mT)
    state.sums.mul_((state.scale - after).exp_())
    state.scale.copy_(after)
    return logs.sub(after.mT).exp_()


def extend(terms: Terms, inputs: tuple[Tensor, Tensor, Tensor], state: LinearState) -> tuple[Tensor, LinearState]:
    """Attend many tokens: [b, H, n, D], [b, K, n, D], [b, K, n, M] -> [b, H, n, M], and a new state.

    Where heads of q share a state and each token is taken by itself, each adds to a copy of it, all of which stay alike.
    """
    q, k, v = (x.detach() for x in inputs)
    by_tokens = isinstance(terms.phi, Exponential) and terms.phi.normalises
    copies = q.shape[1] // k.shape[1] if by_tokens else 1
    sums, M = state.sums.repeat_interleave(copies, 0), v.shape[-1]
    wide = sums.new_zeros(*sums.shape[:2], width(M))
    wide[..., : M + 1] = sums
    before = (wide, None if state.scale is None else state.scale.mT.repeat_interleave(copies, 0))
    if by_tokens:
        k, v = of_each_head(q, k, v)
        o, (_, scale) = attend_by_tokens(terms, q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), before)
    else:
        rows = (by_token(q, k.shape[1]), k.flatten(0, 1), v.flatten(0, 1))
        o = outputs(rows[0], v)
        _, scale = attend(terms, rows, cut(terms, rows, CHUNK), before, o)
        o = o.transpose(1, 2)
    scale = None if scale is None else scale[::copies].mT.contiguous()
    after = LinearState(wide[::copies, :, : M + 1].contiguous(), state.token, scale)
    return o.reshape(*q.shape[:3], M), after
