"""The delta rule by chunks and by tokens, with or without a decay.

X rows (batch and heads of k and v folded), R heads of q for each, S chunks of L tokens, D query/key width, M value width, G = 1
or D decays of a token; b batch, K heads of k and v, W writes in a chunk, one or more a token. Inputs in order: q, k, v,
strengths β, and log decays where there are any.
"""

import torch
from torch import Tensor

from ...recurrence.decay import Decay, NoDecay
from ...recurrence.walk import Inputs
from .feedback import feedback, solve
from .pairs import pairs


def by_chunks(inputs: Inputs, state: Tensor) -> tuple[Tensor, Tensor]:
    """Compute S_t = Diag(α_t) S_{t-1} + k_t u_tᵀ with u_t = β_t (v_t - (Diag(α_t) S_{t-1})ᵀ k_t), o_t = S_tᵀ q_t.

    q [X, S, R L, D], others [X, S, L, ·] and the state [X, D, M] -> o [X, S, R L, M] and the state after it.

    Yang et al. 2024 (arXiv:2406.06484), section 3: within a chunk that starts from the state S, the corrections U [L, M] solve
    (I + tril(β K Kᵀ, -1)) U = β (V - K S): the UT transform. A decay shrinks pairs by what is lost between tokens, K S by
    what is lost since the chunk's start (arXiv:2412.06464, section 3.3; arXiv:2510.26692, section 3).
    """
    q, k, v, beta, *log_decay = inputs
    decay = Decay.of(log_decay[0]) if log_decay else NoDecay()
    removed = k * beta
    scores = pairs(decay, (removed, q), (k,))
    return corrected(scores, v * beta, (decay.read(removed), decay.read(q), decay.write(k)), state, decay.carry)


def corrected(
    scores: tuple[Tensor, ...], v: Tensor, decayed: tuple[Tensor, Tensor, Tensor], state: Tensor, carry: Tensor | float
) -> tuple[Tensor, Tensor]:
    """Correct each write by what is there, U = v - reads S - tril(scores₀, -1) U, and compute the outputs.

    `scores` are those of what is removed with the keys [X, S, W, W], of which what is below the diagonal counts, and of the
    queries with the keys [X, S, R L, W]; v [X, S, W, M]; `decayed` what is removed and the queries, each with what is left
    there of the state at the chunk's start, [X, S, W, D] and [X, S, R L, D], and the keys with what is left of them at its end,
    [X, S, W, D]. Returns o [X, S, R L, M] and the state after the chunks.
    """
    (among, from_queries), (removed, q, k) = scores, decayed
    given, reads = solve(among, torch.cat((v, -removed), -1)).split((v.shape[-1], k.shape[-1]), -1)
    u, met, state = feedback(reads, given, k, state, carry)
    return (q @ met).add_(from_queries @ u), state


def by_token(inputs: Inputs, state: Tensor) -> Tensor:
    """Compute one token: q [b, K, R, D], others [b, K, 1, ·] -> o [b, K, R, M]; updates the state [b, K, D, M] in place."""
    q, k, v, beta, *log_decay = inputs
    for g in log_decay:
        state.mul_(g.exp().mT)
    u = (v - k @ state).mul_(beta)
    state.addcmul_(k.mT, u)
    return q @ state
