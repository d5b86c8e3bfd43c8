"""GLA: every token sets the decay of each row of the state.

B batch, H heads, K heads of k and v, N tokens, D query/key width, M value width.
"""

import torch.nn.functional as F
from torch import Tensor

from attnbench.api import Problem, Projection, default_scale

from .family import GatedFamily, Terms


class GLA(GatedFamily):
    """Gated linear attention, S_t = diag(α_t) S_{t-1} + k_t v_tᵀ, o_t = S_tᵀ q_t / √D, in O(N (L + D) M).

    Yang et al. 2024, section 4; 1/√D is from the authors' code. Inputs are q, k, v and log α [B, K, N, D] ≤ 0, finite. How α is
    made from the tokens (by a low-rank matrix), norm and gate are not part of the attention. Raises ValueError where chunk < 1.
    """

    paper = "arXiv:2312.06635"

    @property
    def scale(self) -> float:
        """Return 1 / √D."""
        return default_scale(self.problem)

    @classmethod
    def projections(cls, problem: Problem) -> tuple[Projection, ...]:
        """Name q, k, v, and the D numbers from which the decay is made."""
        return *super().projections(problem), Projection("decay", problem.kv_heads, problem.D)

    @classmethod
    def admit(cls, problem: Problem, *raw: Tensor) -> tuple[Tensor, ...]:
        """Return q, k, v, and log α = log σ(-x) / 16, with the paper's temperature 16."""
        q, k, v, x = super().admit(problem, *raw)
        # -softplus(x) is log σ(-x), and unlike logsigmoid(-x) keeps the memory layout
        return q, k, v, F.softplus(x) / -16

    def terms(self, *inputs: Tensor) -> Terms:
        """Return q, k, v and log α as they are."""
        q, k, v, log_decay = inputs
        return Terms(q, k, v, log_decay)
