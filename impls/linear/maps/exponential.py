"""Maps of the kind exp(E(k)), which overflow unless a log scale is taken out.

B batch and heads, T tokens, D query/key width, C width of φ, G = 1 or C scales for each head.

With c_i the log scale of the keys j ≤ i (or of all keys, without a mask), the state after i holds exp(E(k_j) - c_i):

  S_i = exp(c_{i-1} - c_i) S_{i-1} + exp(E(k_i) - c_i) v_iᵀ

c never falls, so nothing here exceeds 1, and it depends on no later key, so nothing leaks the future.
"""

from abc import abstractmethod

import torch
from torch import Tensor

from ..eager.segments import accumulator
from .feature_map import FeatureMap


class Exponential(FeatureMap):
    """A map with φ(k) = exp(E(k) - c) for keys; `forward` is φ(q), which each query scales by itself."""

    normalises: bool = False
    """Whether c is the log of a sum, which has a gradient; otherwise it is a maximum, a constant to the gradient."""

    @abstractmethod
    def scales(self, C: int) -> int:
        """Return G: 1 for one scale of all features of a head, or C."""

    @abstractmethod
    def logs(self, k: Tensor) -> Tensor:
        """Compute E(k), differentiable: [..., D] -> [..., C]."""

    @abstractmethod
    def pull_back_logs(self, k: Tensor, dlogs: Tensor) -> Tensor:
        """Compute dL/dk from dL/dE(k); may overwrite it."""

    @abstractmethod
    def running(self, logs: Tensor) -> Tensor:
        """Compute the scale c_i of each token and those before it: [..., T, C] -> [..., T, G]."""

    @abstractmethod
    def total(self, logs: Tensor) -> Tensor:
        """Compute the scale of all these tokens: [..., T, C] -> [..., 1, G]."""

    @abstractmethod
    def join(self, c: Tensor, d: Tensor) -> Tensor:
        """Compute the scale of tokens whose parts have the scales c and d."""

    def arithmetic(self, dtype: torch.dtype) -> torch.dtype:
        """Return the dtype to compute in, float32 at least: rounding E(k) is an error relative to E, not to exp(E)."""
        return accumulator(dtype)

    def similarity(self, q: Tensor, k: Tensor, visible: Tensor) -> Tensor:
        """Compute sim_ij = Σ_c φ(q_i)_c exp(E(k_j)_c - c_i), over each query's own visible keys: [B, H, N, N].

        Holds all pairs and features at once: [B, H, N, N, C].
        """
        logs = torch.where(visible.unsqueeze(-1), self.logs(k).unsqueeze(-3), nothing(k.dtype))
        scale = self.total(logs) if self.normalises else self.total(logs).detach()
        return torch.einsum("bhic,bhijc->bhij", self(q), (logs - scale).exp().expand(-1, -1, q.shape[2], -1, -1)) * visible

    def similarity_rows(self, q: Tensor, k: Tensor, seen: Tensor) -> Tensor:
        """Compute the same for a few queries of one head, one after the other: [n, D], [N, D], bool [n, N] -> [n, N]."""
        logs, found = self.logs(k), []
        for features, visible in zip(self(q), seen, strict=True):
            own = logs[visible]
            row = own.new_zeros(len(k))
            if len(own):
                scale = self.total(own) if self.normalises else self.total(own).detach()
                row = row.masked_scatter(visible, (own - scale).exp() @ features)
            found.append(row)
        return torch.stack(found)


def nothing(dtype: torch.dtype) -> float:
    """Return the log of a key that does not exist: finite, since -inf minus itself is NaN."""
    return torch.finfo(dtype).min
