"""The delta rule by chunks and by tokens, with or without a decay.

X rows (batch and heads of k and v folded), R heads of q for each, S chunks of L tokens, D query/key width, M value width, G = 1
or D decays of a token; b batch, K heads of k and v, W writes in a chunk, one or more a token. Inputs in order: q, k, v,
strengths β, and log decays where there are any.
"""

from torch import Tensor

from ...partial.triangular import solve
from ...recurrence.decay import Decay
from ...recurrence.heads import each_head
from ...recurrence.products import add_product
from ...recurrence.walk import Inputs
from .feedback import feedback
from .pairs import Met, meet


def by_chunks(inputs: Inputs, state: Tensor) -> tuple[Tensor, Tensor]:
    """Compute S_t = Diag(α_t) S_{t-1} + k_t u_tᵀ with u_t = β_t (v_t - (Diag(α_t) S_{t-1})ᵀ k_t), o_t = S_tᵀ q_t.

    q [S, X, R L, D], others [S, X, L, ·] and the state [X, D, M] -> o [S, X, R L, M] and the state after it.

    Yang et al. 2024 (arXiv:2406.06484), section 3: within a chunk that starts from the state S, the corrections U [L, M] solve
    (I + tril(β K Kᵀ, -1)) U = β (V - K S): the UT transform. A decay shrinks pairs by what is lost between tokens, K S by
    what is lost since the chunk's start (arXiv:2412.06464, section 3.3; arXiv:2510.26692, section 3).
    """
    q, k, v, beta, *log_decay = inputs
    decay = Decay.of(log_decay[0]) if log_decay else None
    return corrected(meet(decay, (q, each_head(k, beta)), (k,)), each_head(v, beta), state)


def corrected(met: Met, v: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Correct each write by what is there, U = v - removed S - tril(among, -1) U, and compute the outputs.

    `met` has the queries and what is removed, whose scores count below the diagonal, and the keys; v [S, X, W, M]. Returns o
    [S, X, R L, M] and the state after the chunks.
    """
    (from_queries, among), (q, removed), (k,) = met.scores, met.queries, met.keys
    given, reads = solve(among, v, removed)
    u, read, state = feedback(reads, given, k, state, carry=met.carry, half=met.half)
    return add_product(q @ read, from_queries, u), state


def by_token(inputs: Inputs, state: Tensor) -> Tensor:
    """Compute one token: q [b, K, R, D], others [b, K, 1, ·] -> o [b, K, R, M]; updates the state [b, K, D, M] in place."""
    q, k, v, beta, *log_decay = inputs
    for g in log_decay:
        state.mul_(g.exp().mT)
    u = (v - k @ state).mul_(beta)
    state.addcmul_(k.mT, u)
    return q @ state
