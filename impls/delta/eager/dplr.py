"""A recurrence whose transition is diagonal plus low rank, by chunks and by tokens.

X rows (batch and heads of k and v folded), R heads of r for each, S chunks of L tokens, D query/key width, M value width; b
batch, K heads of k and v. Inputs in order: r, k, v, log decays w, a, b.
"""

import torch
from torch import Tensor

from ...recurrence.decay import Decay, left
from ...recurrence.walk import Inputs
from .feedback import feedback, solve
from .pairs import one_later, pairs


def by_chunks(inputs: Inputs, state: Tensor) -> tuple[Tensor, Tensor]:
    """Compute S_t = (Diag(exp w_t) + b_t a_tᵀ) S_{t-1} + k_t v_tᵀ, o_t = S_tᵀ r_t.

    r [X, S, R L, D], others [X, S, L, ·] and the state [X, D, M] -> o [X, S, R L, M] and the state after it.

    With p_t = S_{t-1}ᵀ a_t the transition is a second write, b_t p_tᵀ, so within a chunk that starts from the state S

      p_i = Sᵀ (exp(c_{i-1}) a_i) + Σ_{j<i} (a_i · exp(c_{i-1} - c_j) b_j) p_j + Σ_{j<i} (a_i · exp(c_{i-1} - c_j) k_j) v_j

    which is triangular in p. a reads what token i - 1 left, before w_i, so it acts as an additional query of the token before.
    """
    r, k, v, w, a, b = inputs
    decay = Decay.of(w)
    rk, rb, ak, ab = pairs(decay, (r, a.roll(-1, 2)), (k, b))
    # the first token reads the state before the chunk, which no pair covers
    asked = torch.cat((one_later(ak) @ v, a * left(decay.c - w, decay.kind)), -1)
    given, reads = solve(-one_later(ab), asked).split((v.shape[-1], a.shape[-1]), -1)
    p, met, state = feedback(reads, given, decay.write(b), state, decay.carry, decay.write(k).mT @ v)
    return (decay.read(r) @ met).add_(rk @ v).add_(rb @ p), state


def by_token(inputs: Inputs, state: Tensor) -> Tensor:
    """Compute one token: r [b, K, R, D], others [b, K, 1, ·] -> o [b, K, R, M]; updates the state [b, K, D, M] in place."""
    r, k, v, w, a, b = inputs
    p = a @ state
    state.mul_(w.exp().mT).addcmul_(b.mT, p).addcmul_(k.mT, v)
    return r @ state
