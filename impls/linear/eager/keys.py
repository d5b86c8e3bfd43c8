"""φ(k) of one segment, the log scale that some maps take out of it, and the state to which keys and values sum up.

B batch and heads folded, N tokens, T tokens of a segment, C width of φ, G = 1 or C log scales (exponential.py), M value width,
W value width with its column of ones (segments.py).
"""

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from ..maps.exponential import Exponential, nothing
from ..maps.feature_map import FeatureMap
from .segments import Segment, accumulator, whole_segments, width

Scale = Tensor | None
"""Log scale of the keys so far [B, 1, G], or at each token [B, T, G]; None for maps that need none."""

Carried = tuple[Tensor, Scale]
"""A state Σ φ(k) [v | 1]ᵀ over some tokens, [B, C, W], and the log scale that is taken out of it."""


@dataclass(frozen=True)
class Terms:
    """The terms of a call beside q, k and v; `mask`, bool [B, N, 1], is False where a key does not exist."""

    phi: FeatureMap
    eps: float
    mask: Tensor | None = None

    def of(self, heads: slice) -> Self:
        """Select some of the samples and heads."""
        return replace(self, mask=None if self.mask is None else self.mask[heads])


def nothing_yet(terms: Terms, k: Tensor, v: Tensor, wide: int | None = None, kind: torch.dtype | None = None) -> Carried:
    """Return what is carried before the first token: a state of `wide` columns (W) in dtype `kind` (the accumulator's)."""
    (B, _, D), phi = k.shape, terms.phi
    C = phi.width(D)
    state = k.new_zeros(B, C, wide or width(v.shape[-1]), dtype=kind or accumulator(k.dtype))
    if not isinstance(phi, Exponential):
        return state, None
    logs = phi.arithmetic(k.dtype)
    return state, k.new_full((B, 1, phi.scales(C)), nothing(logs), dtype=logs)


def keys_so_far(terms: Terms, segment: Segment, k: Tensor, before: Scale) -> tuple[Tensor, Scale]:
    """Compute φ(k) [B, T, C], each token at the scale of the keys up to itself, and these scales [B, T, G]."""
    phi = terms.phi
    if not isinstance(phi, Exponential) or before is None:
        return phi.value(_seen(terms, segment, k)), None
    logs = _logs(terms, phi, segment, k)
    scale = phi.join(before, phi.running(logs))
    return (logs - scale).exp_(), scale


def keys_together(terms: Terms, segment: Segment, k: Tensor, before: Scale) -> tuple[Tensor, Scale]:
    """Compute φ(k) [B, T, C], all at the scale [B, 1, G] after the segment, and that scale; 0 for hidden keys."""
    phi = terms.phi
    if not isinstance(phi, Exponential) or before is None:
        return visible(terms, segment, phi.value(_seen(terms, segment, k))), None
    logs = _logs(terms, phi, segment, k)
    scale = phi.join(before, phi.total(logs))
    return visible(terms, segment, (logs - scale).exp_()), scale


def keys_at(terms: Terms, segment: Segment, k: Tensor, scale: Scale) -> Tensor:
    """Compute φ(k) [B, T, C] at a known scale; 0 for hidden keys."""
    phi = terms.phi
    if not isinstance(phi, Exponential) or scale is None:
        return visible(terms, segment, phi.value(_seen(terms, segment, k)))
    return visible(terms, segment, (_logs(terms, phi, segment, k) - scale).exp_())


def through_keys(phi: FeatureMap, segment: Segment, k: Tensor, features: Tensor, dfeatures: Tensor, dk: Tensor) -> None:
    """Write dL/dk of a segment from dL/dφ(k), its scale being a constant; may overwrite φ(k) and dL/dφ(k)."""
    part = _part(phi, segment, k)
    if isinstance(phi, Exponential):
        segment.of(dk).copy_(phi.pull_back_logs(part, dfeatures.mul_(features)))
    else:
        phi.write_pull_back(part, features, dfeatures, segment.of(dk))


def queries(phi: FeatureMap, segment: Segment, q: Tensor) -> Tensor:
    """Compute φ(q) of a segment, [B, T, C]."""
    return phi.value(_part(phi, segment, q))


def through_queries(phi: FeatureMap, segment: Segment, q: Tensor, features: Tensor, dfeatures: Tensor, dq: Tensor) -> None:
    """Write dL/dq of a segment from dL/dφ(q); may overwrite φ(q) and dL/dφ(q)."""
    phi.write_pull_back(_part(phi, segment, q), features, dfeatures, segment.of(dq))


def sum_of_keys(terms: Terms, k: Tensor, v: Tensor, wide: int | None = None, kind: torch.dtype | None = None) -> Carried:
    """Compute Σ_j φ(k_j) [v_j | 1]ᵀ over all tokens, [B, C, W], and its scale; `wide` and `kind` as in `nothing_yet`.

    Katharopoulos et al. 2020, eq. 6. The column of ones is summed separately here, which saves a copy of v.
    """
    M, arithmetic = v.shape[-1], terms.phi.arithmetic(k.dtype)
    state, scale = nothing_yet(terms, k, v, wide, kind)
    numerator, denominator = state.new_zeros(*state.shape[:2], M), state.new_zeros(state.shape[0], 1, state.shape[1])
    for segment in whole_segments(k, state.shape[1]):
        features, after = keys_together(terms, segment, k, scale)
        if scale is not None and after is not None:
            numerator.mul_(left := (scale - after).exp_().mT), denominator.mul_(left.mT)
        add_product(numerator, features, segment.of(v).to(arithmetic))
        denominator += features.sum(1, keepdim=True, dtype=state.dtype)
        scale = after
        del features  # free them before the next segment
    state[..., :M], state[..., M] = numerator, denominator.squeeze(1)
    return state, scale


def absorb(terms: Terms, segment: Segment, k: Tensor, values: Tensor, before: Carried) -> Scale:
    """Add a segment with values [B, T, W] to the state, in place, and return the scale after it."""
    state, scale = before
    features, after = keys_together(terms, segment, k, scale)
    if scale is not None and after is not None:
        state.mul_((scale - after).exp_().mT)
    add_product(state, features, values)
    return after


def add_product(state: Tensor, features: Tensor, rows: Tensor) -> None:
    """Add φᵀ·rows of a segment to the state, in its own dtype: [B, T, C], [B, T, W]."""
    if state.dtype is features.dtype:
        state.baddbmm_(features.mT, rows)
    else:
        state += torch.bmm(features.mT, rows)


def visible(terms: Terms, segment: Segment, rows: Tensor) -> Tensor:
    """Set rows [B, T, ·] of hidden keys to 0, in place."""
    return rows if terms.mask is None else rows.mul_(segment.of(terms.mask))


def _part(phi: FeatureMap, segment: Segment, x: Tensor) -> Tensor:
    return segment.of(x).to(phi.arithmetic(x.dtype))


def _seen(terms: Terms, segment: Segment, k: Tensor) -> Tensor:
    """Select the keys of a segment, with 0 for hidden ones: φ of what they hold may be infinite, and stay so times 0."""
    part = _part(terms.phi, segment, k)
    return part if terms.mask is None else part.masked_fill(~segment.of(terms.mask), 0)


def _logs(terms: Terms, phi: Exponential, segment: Segment, k: Tensor) -> Tensor:
    """Compute E(k), which for hidden keys is the lowest finite number; it may be k itself."""
    logs = phi.logs(_part(phi, segment, k))
    return logs if terms.mask is None else logs.masked_fill(~segment.of(terms.mask), nothing(logs.dtype))
