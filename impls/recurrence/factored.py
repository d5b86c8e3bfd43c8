"""A part's products where decays are slow enough to be multiplied into q and k, as in linear attention without decay.

X rows (batch and heads of k and v folded), R heads of q for each, S chunks of L tokens, D query/key width, M value width; G = 1
or D decays.
"""

from dataclasses import dataclass

from torch import Tensor

from .gradients import Gradients, net, net_of_pairs, of_log_decay
from .heads import each_head_, lower_
from .products import add_product
from .states import slopes, states


@dataclass(frozen=True)
class Factored:
    """Some chunks with q̂ = q exp(c), k̂ = k exp(-c), v, contiguous, and `left` = exp(c).

    q̂ is [S, X, R L, D], k̂ [S, X, L, D], v [S, X, L, M], and `left` [S or 1, X, L, G], or None for 1. Σ_d q_id k_jd exp(c_id -
    c_jd) = q̂_i · k̂_j, and the state moves by S <- exp(c_L) (S + Σ_j k̂_j v_jᵀ). decay.py says up to how many nats this is
    allowed.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    left: Tensor | None

    def attend(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Compute o_i = Σ_{j<=i} (q̂_i · k̂_j) v_j + q̂_i S: [S, X, R L, M], and the state after, [X, D, M].

        Not differentiable.
        """
        met = self._states(state)
        return add_product(self.q @ met[:-1], self._scores, self.v), met[-1].clone()

    def pull_back(self, g: Tensor, state: Tensor, later: Tensor, *, decay_too: bool) -> Gradients:
        """Compute gradients from dL/do [S, X, R L, M], the state before, and dL/d(state after) [X, D, M]."""
        before, met = slopes(self._carry, self.q.mT @ g, later), self._states(state)
        # gradient of what chunks write, which decays until the end of the chunk
        written, scores = before[1:] * self._carry, self._scores
        dv = add_product(self.k @ written, scores.mT, g)
        dscores = lower_(g @ self.v.mT)
        dc = net_of_pairs(scores, dscores) if decay_too and self._by_token else None
        del scores
        dq, dk = g @ met[:-1].mT, self.v @ written.mT
        del written
        if dc is not None:
            dc += net(self.q, dq, self.k, dk).sum(-1, keepdim=True)
        dq, dk = add_product(dq, dscores, self.k), add_product(dk, dscores.mT, self.q)
        del dscores
        if decay_too and dc is None:
            dc = net(self.q, dq, self.k, dk)
        dlog_decay = None if dc is None else of_log_decay(dc, met[1:], before[1:])
        if self.left is not None:
            dq, dk = each_head_(dq, self.left), dk.div_(self.left)
        return Gradients(dq, dk, dv, dlog_decay, before[0].clone())

    @property
    def _by_token(self) -> bool:
        return self.left is not None and self.left.shape[-1] == 1

    @property
    def _carry(self) -> Tensor:
        """Compute exp(c_L), [S or 1, X, G, 1]."""
        return self.q.new_ones(1, 1, 1, 1) if self.left is None else self.left[:, :, -1].unsqueeze(-1)

    @property
    def _scores(self) -> Tensor:
        return lower_(self.q @ self.k.mT)

    def _states(self, state: Tensor) -> Tensor:
        add = self.k.mT @ self.v
        return states(self._carry, add if self.left is None else add.mul_(self._carry), state)
