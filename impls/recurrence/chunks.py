"""Sequences cut into chunks: [B, H, N, ·] as [X, S, L, ·] and back.

X = B H rows, S chunks of L tokens; the last one is padded with zeros, which write nothing and decay nothing.
"""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Chunks:
    """N tokens in chunks of L."""

    N: int
    L: int

    @property
    def count(self) -> int:
        """Count the chunks, S, of which the last may be padded."""
        return -(-self.N // self.L)

    def cut(self, x_BHNC: Tensor) -> Tensor:
        """Cut into chunks: [B, H, N, C] -> [B H, S, L, C], a view where L divides N and the memory allows it."""
        empty = self.count * self.L - self.N
        x = F.pad(x_BHNC, (0, 0, 0, empty)) if empty else x_BHNC
        return x.reshape(-1, self.count, self.L, x.shape[-1])

    def join(self, x_XSLC: Tensor, B: int) -> Tensor:
        """Undo `cut`: [B H, S, L, C] -> [B, H, N, C]."""
        x = x_XSLC.flatten(1, 2)[:, : self.N]
        return x.reshape(B, -1, self.N, x.shape[-1])
