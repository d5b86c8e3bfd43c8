"""Lightning attention: each head of each layer decays at a fixed rate; nothing is scaled.

B batch, H heads, K heads of k and v, N tokens, D query/key width, M value width.
"""

import torch
from torch import Tensor

from attnbench.api import Problem

from .family import GatedFamily, Terms, heads

SLOPES = ("minimax", "fla")


class Lightning(GatedFamily):
    """Lightning attention, S_t = λ_h S_{t-1} + k_t v_tᵀ, o_t = S_tᵀ q_t, in O(N (L + D) M).

    Qin et al. 2024 (Lightning Attention-2), algorithm 1, which leaves λ open. `slopes` for `layer`, one of `layers`, chooses
    it: `minimax`, -log λ_h = 2^(-8 (h + 1) / K) (1 - layer / (layers - 1 + 1e-5) + 1e-5), as Hugging Face's MiniMax; `fla`,
    -log λ_h = (8 / K) h (1 - layer / layers), as flash-linear-attention. h counts the K states. Norm and gate are not part of
    the attention. Raises ValueError on unknown slopes, where layer is no whole number from 0 to layers - 1, or where chunk < 1.
    """

    paper = "arXiv:2401.04658"

    def __init__(self, problem: Problem, slopes: str = "minimax", layer: int = 0, layers: int = 1, chunk: int = 64) -> None:
        super().__init__(problem, chunk)
        if slopes not in SLOPES:
            raise ValueError(f"slopes={slopes!r}: must be one of {', '.join(SLOPES)}")
        if type(layers) is not int:
            raise ValueError(f"layers={layers!r}: must be a whole number")
        if type(layer) is not int or not 0 <= layer < layers:
            raise ValueError(f"layer={layer!r}: must be the number of one of the {layers!r} layers, counted from 0")
        self.slopes, self.layer, self.layers = slopes, layer, layers

    def log_decay(self, q: Tensor) -> Tensor:
        """Compute log λ of each state, [1, K, 1, 1]."""
        count = self.problem.kv_heads
        h = heads(count, q)
        if self.slopes == "fla":
            return -8 / count * (1 - self.layer / self.layers) * h
        return -torch.exp2(-8 / count * (h + 1)) * (1 - self.layer / (self.layers - 1 + 1e-5) + 1e-5)

    def terms(self, *inputs: Tensor) -> Terms:
        """Return q, k, v and the fixed log decays."""
        q, k, v = inputs
        return Terms(q, k, v, self.log_decay(q))
