"""A recurrence whose transition is diagonal plus low rank, by chunks and by tokens.

X rows (batch and heads of k and v folded), R heads of r for each, S chunks of L tokens, D query/key width, M value width; b
batch, K heads of k and v. Inputs in order: r, k, v, log decays w, a, b.
"""

from torch import Tensor

from ...partial.triangular import solve
from ...recurrence.decay import Decay
from ...recurrence.products import add_product
from ...recurrence.walk import Inputs
from .feedback import feedback
from .pairs import meet


def by_chunks(inputs: Inputs, state: Tensor) -> tuple[Tensor, Tensor]:
    """Compute S_t = (Diag(exp w_t) + b_t a_tᵀ) S_{t-1} + k_t v_tᵀ, o_t = S_tᵀ r_t.

    r [S, X, R L, D], others [S, X, L, ·] and the state [X, D, M] -> o [S, X, R L, M] and the state after it.

    With p_t = S_{t-1}ᵀ a_t the transition is a second write, b_t p_tᵀ, so within a chunk that starts from the state S

      p_i = Sᵀ (exp(c_{i-1}) a_i) + Σ_{j<i} (a_i · exp(c_{i-1} - c_j) b_j) p_j + Σ_{j<i} (a_i · exp(c_{i-1} - c_j) k_j) v_j

    which is triangular in p. a reads what token i - 1 left, before w_i.
    """
    r, k, v, w, a, b = inputs
    v = v.contiguous()
    met = meet(Decay.of(w), (r,), (k, b), early=(a,))
    (rk, rb, ak, ab), (r, a), (k, b) = met.scores, met.queries, met.keys
    given, reads = solve(-ab, ak @ v, -a)
    p, read, state = feedback(reads, given, b, state, carry=met.carry, half=met.half, added=k.mT @ v)
    return add_product(add_product(r @ read, rk, v), rb, p), state


def by_token(inputs: Inputs, state: Tensor) -> Tensor:
    """Compute one token: r [b, K, R, D], others [b, K, 1, ·] -> o [b, K, R, M]; updates the state [b, K, D, M] in place."""
    r, k, v, w, a, b = inputs
    p = a @ state
    state.mul_(w.exp().mT).addcmul_(b.mT, p).addcmul_(k.mT, v)
    return r @ state
