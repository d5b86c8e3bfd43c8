"""Adaptive average pooling over tokens as two products with small matrices, reading each token once.

The dense matrix [S, N] of a pyramid is mostly zeros: neighbouring tokens meet few bins. Cut into T tiles of n tokens it is
`within` [T, R, n], sums over a tile for each of the at most R bins that it meets, and `place` [S, T R], which of these sums a
bin is made of. `place` holds zeros and ones, `within` zeros and a power of 2, 1 / n or the next below: exact in every dtype,
and no sum over a long sequence is beyond float16.

B batch, N tokens, S bins of all levels, T tiles, R bins of a tile, n tokens of a tile, C channels.
"""

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..partial.softmax import sums

TILES = 32
"""Number of tiles: with more of them each tile meets fewer bins, but there are more sums to place."""


class AdaptivePooling(nn.Module):
    """Means of bins, for sequences of N tokens: bin i of a level n covers tokens ⌊iN/n⌋ … ⌈(i+1)N/n⌉ - 1."""

    within: Tensor
    place: Tensor
    lengths: Tensor

    def __init__(self, N: int, levels: tuple[int, ...]) -> None:
        super().__init__()
        self.N = N
        (starts, ends), (tiles, size), met = _bins(N, levels), _tiles(N), _met(N, levels)
        # [T, R]: the bins that a tile meets come first; the remaining entries are other bins, whose sums are 0
        chosen = met.int().argsort(stable=True, dim=0, descending=True)[: _most(met)].mT
        tokens = torch.arange(tiles * size).view(tiles, 1, size)
        within = (starts[chosen].unsqueeze(-1) <= tokens) & (tokens < ends[chosen].unsqueeze(-1))
        place = chosen == torch.arange(len(starts))[:, None, None]
        self.register_buffer("within", within.float() / _scale(size))
        self.register_buffer("place", place.flatten(1).float())
        # whole numbers stay exact whatever dtype the module is moved to
        self.register_buffer("lengths", (ends - starts).unsqueeze(1))
        self.scale = _scale(size)

    def forward(self, x_BNC: Tensor) -> Tensor:
        """Pool [B, N, C] -> [B, S, C]. Raises ValueError for another N than it was built for."""
        if x_BNC.shape[1] != self.N:
            raise ValueError(f"{x_BNC.shape[1]} tokens: the bins are those of {self.N}")
        tiles, _, size = self.within.shape
        missing = tiles * size - x_BNC.shape[1]
        whole = F.pad(x_BNC, (0, 0, 0, missing)) if missing else x_BNC
        sums_BTRC = self.within @ whole.unflatten(1, (tiles, size))
        lengths = self.lengths.to(sums(x_BNC.dtype)) / self.scale
        means: Tensor = (self.place @ sums_BTRC.flatten(1, 2)).div_(lengths)
        return means


@cache
def factored_size(N: int, levels: tuple[int, ...]) -> tuple[int, int, int]:
    """Compute T, R and n of these bins, as `AdaptivePooling` cuts them."""
    tiles, size = _tiles(N)
    return tiles, _most(_met(N, levels)), size


def _scale(size: int) -> int:
    """Compute the least power of 2 that is n or more."""
    return 1 << (size - 1).bit_length()


def _bins(N: int, levels: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Compute the first token of each bin, and the one after its last: [S] each."""
    starts, ends = torch.tensor([(i * N // n, -(-(i + 1) * N // n)) for n in levels for i in range(n)]).unbind(1)
    return starts, ends


def _tiles(N: int) -> tuple[int, int]:
    """Compute T, the number of tiles, and n, the tokens of a tile: TILES at most, the last one maybe partly empty."""
    size = -(-N // TILES)
    return -(-N // size), size


def _met(N: int, levels: tuple[int, ...]) -> Tensor:
    """Say which bins have a token in which tiles: bool [S, T]."""
    (starts, ends), (tiles, size) = _bins(N, levels), _tiles(N)
    first = torch.arange(tiles) * size
    return (starts[:, None] < first + size) & (ends[:, None] > first)


def _most(met: Tensor) -> int:
    """Compute R, the number of bins in the tile that meets most."""
    return int(met.sum(0).max())
