"""The map of Efficient Attention: two softmaxes in place of one.

D query/key width, C = D width of φ, T tokens.
"""

import torch
from torch import Tensor

from .exponential import Exponential


class Efficient(Exponential):
    """Softmax over the features of a query, and over the positions of each channel of the keys (Shen et al. 2018).

    The causal form normalises each channel over the keys so far. Rows of sim sum to one by themselves.
    """

    normalises = True

    def width(self, D: int) -> int:
        """Return C = D."""
        return D

    def scales(self, C: int) -> int:
        """Return C: each channel has its own scale."""
        return C

    def forward(self, x: Tensor) -> Tensor:
        """Compute softmax(q) over its features."""
        return x.softmax(-1)

    def pull_back(self, x: Tensor, phi: Tensor, dphi: Tensor) -> Tensor:  # noqa: ARG002 - φ(x) says it all
        """Compute dL/dq through the softmax, in the place of dL/dφ."""
        dphi.mul_(phi)
        return dphi.sub_(phi.mul_(dphi.sum(-1, keepdim=True)))

    def logs(self, k: Tensor) -> Tensor:
        """Return E(k) = k."""
        return k

    def pull_back_logs(self, k: Tensor, dlogs: Tensor) -> Tensor:  # noqa: ARG002 - E is the identity
        """Return dL/dk = dL/dE(k)."""
        return dlogs

    def running(self, logs: Tensor) -> Tensor:
        """Compute log Σ_{j≤i} exp(k_j)."""
        return logs.logcumsumexp(-2)

    def total(self, logs: Tensor) -> Tensor:
        """Compute log Σ_j exp(k_j)."""
        return logs.logsumexp(-2, keepdim=True)

    def join(self, c: Tensor, d: Tensor) -> Tensor:
        """Compute log(exp(c) + exp(d))."""
        return torch.logaddexp(c, d)
