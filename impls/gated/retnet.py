"""RetNet: each head decays at a fixed rate.

B batch, H heads, K heads of k and v, N tokens, D query/key width, M value width.
"""

import torch
from torch import Tensor

from attnbench.api import default_scale

from .family import GatedFamily, Terms, heads


class RetNet(GatedFamily):
    """Retention, S_t = γ_h S_{t-1} + k_t v_tᵀ, o_t = S_tᵀ q_t / √D with γ_h = 1 - 2^(-5-h), in O(N (L + D) M).

    h counts the states, which are those of the heads of k and v. Sun et al. 2023, eq. 5-8; 1/√D is the first of its three
    normalisations. The other two, rotation of q and k, group norm and gate are not part of the attention. Raises ValueError
    where chunk < 1.
    """

    paper = "arXiv:2307.08621"

    @property
    def scale(self) -> float:
        """Return 1 / √D."""
        return default_scale(self.problem)

    def terms(self, *inputs: Tensor) -> Terms:
        """Return q, k, v and the fixed log decays log γ."""
        q, k, v = inputs
        return Terms(q, k, v, torch.log1p(-torch.exp2(-5 - heads(self.problem.kv_heads, q))))
