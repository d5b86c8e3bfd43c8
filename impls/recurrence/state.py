"""Decoding with one state that stands for all earlier tokens, read and written once for each new one.

b batch, H heads of q, K heads of k and v, D query/key width, M value width; G = 1 or D decays.
"""

from dataclasses import dataclass

from torch import Tensor

from .heads import of_one_token, one_token_of


@dataclass(frozen=True)
class RecurrentState:
    """The state `sums` [b, K, D, M], a sum of decayed k_j v_jᵀ, float32 at least."""

    sums: Tensor

    def then(self, k: Tensor, v: Tensor, log_decay: Tensor | None = None) -> "RecurrentState":
        """Update S <- exp(log decay) S + k vᵀ in the same memory: [b, K, 1, D], [b, K, 1, M], [1 or b, K, 1, G]."""
        kind = self.sums.dtype
        if log_decay is not None:
            self.sums.mul_(log_decay.to(kind).exp().mT)
        self.sums.addcmul_(k.to(kind).mT, v.to(kind))
        return self

    def read(self, q: Tensor, scale: float = 1.0) -> Tensor:
        """Compute scale Sᵀ q with each head's own state: [b, H, 1, D] -> [b, H, 1, M], in the dtype of the sums."""
        asked = of_one_token(q.to(self.sums.dtype) * scale, self.sums.shape[1])
        return one_token_of(asked @ self.sums, q.shape[1])
