"""The products of some chunks of gated linear attention, and their gradients, however fast it decays.

X rows (batch and heads of k and v folded), R heads of q for each, S chunks of L tokens, D query/key width, M value width; G = 1
or D decays.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from .decay import Decay
from .gradients import Gradients, net, net_of_pairs, of_log_decay
from .products import add_product
from .states import slopes, states


@dataclass(frozen=True)
class Segment:
    """Some chunks with weighted pairs: q [S, X, R L, D], k [S, X, L, D], v [S, X, L, M], contiguous, and their decays."""

    q: Tensor
    k: Tensor
    v: Tensor
    decay: Decay

    def attend(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Compute o_i = Σ_{j<=i} (q_i · exp(c_i - c_j) k_j) v_j + (q_i exp(c_i)) S.

        [S, X, R L, M], and the state after, [X, D, M].

        Pairs within the chunk are computed directly, all before it by the state S: Sun et al. 2023 (RetNet), eq. 7. Not
        differentiable.
        """
        met = self._states(state)
        return add_product(self.decay.read(self.q) @ met[:-1], self.decay.pairs(self.q, self.k), self.v), met[-1].clone()

    def pull_back(self, g: Tensor, state: Tensor, later: Tensor, *, decay_too: bool) -> Gradients:
        """Compute gradients from dL/do [S, X, R L, M], the state before, and dL/d(state after) [X, D, M]."""
        before = slopes(self.decay.carry, self.decay.read(self.q).mT @ g, later)
        after, met = before[1:], self._states(state)
        dscores = g @ self.v.mT
        scores, dq, dk = self._through_pairs(dscores)
        dv = add_product(self.decay.write(self.k) @ after, scores.mT, g)
        by_token = decay_too and self.decay.c.shape[-1] == 1
        dc = net_of_pairs(scores, dscores) if by_token else net(self.q, dq, self.k, dk) if decay_too else None
        del scores, dscores
        # reading and writing multiply by a share, and so do their gradients
        dq_read, dk_written = self.decay.read(g @ met[:-1].mT), self.decay.write(self.v @ after.mT)
        if dc is not None:
            through_states = net(self.q, dq_read, self.k, dk_written)
            dc += through_states.sum(-1, keepdim=True) if by_token else through_states
        dlog_decay = None if dc is None else of_log_decay(dc, met[1:], after)
        return Gradients(dq.add_(dq_read), dk.add_(dk_written), dv, dlog_decay, before[0].clone())

    def _states(self, state: Tensor) -> Tensor:
        return states(self.decay.carry, self.decay.write(self.k).mT @ self.v, state)

    def _through_pairs(self, dscores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Compute the scores [S, X, R L, L], and dL/dq and dL/dk by them alone."""
        with torch.enable_grad():
            q, k = self.q.detach().requires_grad_(), self.k.detach().requires_grad_()
            scores = self.decay.pairs(q, k)
        dq, dk = torch.autograd.grad(scores, (q, k), dscores)
        return scores.detach(), dq, dk
