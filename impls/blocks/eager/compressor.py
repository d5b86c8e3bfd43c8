"""One entry for each block of tokens: how DeepSeek-V4 compresses what attention reads.

b batch, n tokens, m tokens of a block, C = n // m whole blocks.
"""

import torch
from torch import Tensor, nn

from ...partial.softmax import sums

_EPS = 1e-6
"""What the model adds to the mean square of an entry."""


class Compressor(nn.Module):
    """Turns each block of m tokens into one entry: a mean, weighted by a softmax over the block in each channel, then normed.

    DeepSeek-AI 2026, *DeepSeek-V4*, eq. 9-12 and 20-23, as transformers 5.23 has them, without the rotation. `overlaps`: an
    entry takes in the block before as well, for which each token gives a second series; it stands first.
    """

    def __init__(self, width: int, block: int, dtype: str, *, overlaps: bool) -> None:
        super().__init__()
        self.block, self.width, self.overlaps = block, width, overlaps
        kind = getattr(torch, dtype)
        self.bias = nn.Parameter(torch.randn(block, width * (2 if overlaps else 1)).mul_(0.1).to(kind))
        self.norm = nn.Parameter(torch.ones(width, dtype=kind))

    def forward(self, u: Tensor, z: Tensor, before: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """Compress whole blocks of u with the gates z, [b, n, width] or twice as wide -> [b, C, width].

        `before` are u and z of the block that precedes the first.
        """
        C = u.shape[1] // self.block
        u, z = (x[:, : C * self.block].unflatten(1, (C, self.block)) for x in (u, z))
        z = z + self.bias
        if self.overlaps:
            (u_next, u), (z_next, z) = (x.split(self.width, -1) for x in (u, z))
            if before is None:
                first = torch.zeros_like(u[:, :1, :, :]), torch.full_like(z[:, :1, :, :], -torch.inf)
            else:
                first = before[0][:, None, :, : self.width], (before[1] + self.bias)[:, None, :, : self.width]
            u, z = (
                torch.cat((torch.cat((x, series[:, :-1]), 1), own), 2)
                for x, series, own in zip(first, (u_next, z_next), (u, z), strict=True)
            )
        mean = (u * z.to(sums(z.dtype)).softmax(2).to(u.dtype)).sum(2)
        wide = mean.to(sums(mean.dtype))
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + _EPS)).to(mean.dtype) * self.norm

    def reference(self, u: Tensor, z: Tensor) -> Tensor:
        """Evaluate the definition, place by place within the blocks: [b, n, ·] -> [b, C, width]."""
        m, D, C = self.block, self.width, u.shape[1] // self.block
        if not C:
            return u.new_empty(len(u), 0, D)
        values, gates = [], []
        for j in range(m):
            place = slice(j, C * m, m)
            values.append(u[:, place, -D:])
            gates.append(z[:, place, -D:] + self.bias[j, -D:])
            if self.overlaps:
                # the first entry has no block before it
                values.append(nn.functional.pad(u[:, place, :D], (0, 0, 1, -1)))
                gates.append(nn.functional.pad(z[:, place, :D] + self.bias[j, :D], (0, 0, 1, -1), value=-torch.inf))
        mean = (torch.stack(gates).softmax(0) * torch.stack(values)).sum(0)
        return mean / (mean.square().mean(-1, keepdim=True) + _EPS).sqrt() * self.norm
