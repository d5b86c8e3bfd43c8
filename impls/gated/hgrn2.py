"""HGRN2: what a row of the state forgets and what it takes in add up to 1.

B batch, H heads, K heads of x and v, N tokens, D query/key width, M value width.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from attnbench.api import Problem

from ..recurrence.parts import sums
from .family import GatedFamily, Terms


class HGRN2(GatedFamily):
    """S_t = diag(f_t) S_{t-1} + (1 - f_t) v_tᵀ, o_t = S_tᵀ q_t with f = β + (1 - β) σ(x), in O(N (L + D) M).

    Qin et al. 2024 (HGRN2), section 3. Inputs are q, x [B, K, N, D] in the place of k, and v; x are logits, since f itself
    rounds to 0 or 1 where its log or 1 - f does not. `lower_bound` is β, which the paper learns for each layer. Swish of q,
    norm and gate are not part of the attention; nothing is scaled. Raises ValueError unless 0 ≤ lower_bound < 1, or where chunk
    < 1.
    """

    paper = "arXiv:2404.07904"

    def __init__(self, problem: Problem, lower_bound: float = 0.0, chunk: int = 32) -> None:
        # half of the other methods' chunk: it forgets so fast that decays of 64 tokens do not factor (impls/recurrence)
        super().__init__(problem, chunk)
        if isinstance(lower_bound, bool | str) or not 0 <= lower_bound < 1:
            raise ValueError(f"lower_bound={lower_bound!r}: it is the least share that is kept and must be at least 0, below 1")
        self.lower_bound = lower_bound

    def terms(self, *inputs: Tensor) -> Terms:
        """Compute the terms: k = 1 - f and log f from x."""
        q, x, v = inputs
        k = torch.sigmoid(-x)
        taken_in = k * (1 - self.lower_bound) if self.lower_bound else k
        return Terms(q, taken_in, v, self._log_forget(x.to(sums(x.dtype))))

    def _log_forget(self, x: Tensor) -> Tensor:
        """Compute log f, [B, K, N, D]."""
        log_sigmoid = F.logsigmoid(x)
        if self.lower_bound == 0:
            return log_sigmoid
        # log(β + (1 - β) σ), without leaving logarithms; near 0 their rounding would be much of it
        log_sum = torch.logaddexp(x.new_full((), math.log(self.lower_bound)), log_sigmoid + math.log1p(-self.lower_bound))
        return torch.where(x > 0, torch.log1p(torch.sigmoid(-x) * (self.lower_bound - 1)), log_sum)
