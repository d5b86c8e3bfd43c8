"""Codebooks of keys: nearest codes, and their training by moving averages and a commitment loss.

B batch, H heads, N tokens, D key width, S codes. Nothing here depends on attention.
"""

from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor, nn

from ..partial.softmax import sums
from .eager.rms import rms_norm
from .eager.straight_through import straight_through

LEAST_COUNT = 0.01
"""Least count by which the sums of a code are divided."""

DISTANCES = 2**18
"""Number of distances of keys to codes in memory at a time on a CPU: they stay in its cache."""


class Codebook(nn.Module):
    """S codes for each head, c_s = sums_s / max(counts_s, 0.01); Lingle 2023, sections 3.1 and 3.4.

    `sums` [H, S, D] of the keys that chose a code and their `counts` [H, S] are moving averages. They are buffers, since no
    gradient reaches a code, and keep their initial dtype, float32 by default, whatever the module is cast to: in half precision
    averages would stop. To train with it:

      k_hat, codes = codebook.quantise(k)          # attend with k_hat; its gradient goes to k as it is
      loss = task_loss + 1e-4 * codebook.commit_loss(k, codes)
      codebook.update(k, codes)                    # after the backward

    A code that no key chooses keeps its value until its count has fallen to 0.01, and then shrinks; none is revived.
    """

    sums: Tensor
    counts: Tensor

    def __init__(self, vectors: Tensor) -> None:
        super().__init__()
        self.register_buffer("sums", vectors.detach().clone())
        self.register_buffer("counts", vectors.new_ones(vectors.shape[:2]))

    @classmethod
    def drawn(cls, heads: int, codes: int, width: int, factor: float = 1.0) -> Self:
        """Draw random directions of the length of keys with root mean square `factor`, from torch's global generator."""
        vectors = torch.randn(heads, codes, width)
        # where there are no numbers but only shapes, to normalise them would import torch's compiler
        return cls(vectors if vectors.is_meta else rms_norm(vectors, factor))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        # .to(dtype) moves codes and never rounds them
        super()._apply(lambda x: x.to(fn(x).device), recurse)  # type: ignore[no-untyped-call]
        return self

    @property
    def vectors(self) -> Tensor:
        """Compute the codes, [H, S, D]."""
        return self.sums / self.counts.clamp_min(LEAST_COUNT).unsqueeze(-1)

    def assign(self, k: Tensor) -> Tensor:
        """Find the nearest code of each key: [B, H, N, D] -> int64 [B, H, N]."""
        return nearest(k, self.vectors)

    def lookup(self, codes: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """Look up c_z: int64 [B, H, N] -> [B, H, N, D], without a gradient."""
        return rows_of(self.vectors.to(dtype or self.sums.dtype), codes)

    def quantise(self, k: Tensor, codes: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return k̂ [B, H, N, D], with the value c_z and the gradient of k, and z [B, H, N]."""
        codes = self.assign(k) if codes is None else codes
        return straight_through(k, self.lookup(codes, k.dtype)), codes

    @torch.no_grad()
    def totals(self, k: Tensor, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Sum up the keys of each code, [H, S, D], and count them, [H, S]; devices can add these up among themselves."""
        H, S, D = self.sums.shape
        index = _numbered(codes, S).transpose(0, 1).flatten()
        keys = k.transpose(0, 1).reshape(-1, D).to(self.sums.dtype)
        sums = self.sums.new_zeros(H * S, D).index_add_(0, index, keys)
        counts = self.counts.new_zeros(H * S).index_add_(0, index, self.counts.new_ones(len(index)))
        return sums.view(H, S, D), counts.view(H, S)

    def update(self, k: Tensor, codes: Tensor, gamma: float = 0.99) -> None:
        """Take one step of the moving averages, x ← γ x + (1 - γ) Σ; with γ = 0 a step of k-means."""
        self.move(self.totals(k, codes), gamma)

    @torch.no_grad()
    def move(self, totals: tuple[Tensor, Tensor], gamma: float = 0.99) -> None:
        """Take the same step from totals of several devices or blocks. Raises ValueError unless 0 <= γ <= 1."""
        if not 0 <= gamma <= 1:
            raise ValueError(f"gamma={gamma!r}: must lie between 0 and 1")
        for kept, new in zip((self.sums, self.counts), totals, strict=True):
            kept.lerp_(new, 1 - gamma)

    @torch.no_grad()
    def fit(self, k: Tensor, steps: int = 10) -> None:
        """Run k-means (Lloyd 1982) from keys drawn by torch's global generator, the limit of moving averages on fixed keys.

        A code that no key chooses keeps its value; so do drawn codes where there are fewer keys than codes.
        """
        keys = k.transpose(0, 1).flatten(1, 2).to(self.sums.dtype)
        first = keys[:, torch.randperm(keys.shape[1], device=k.device)[: self.sums.shape[1]]]
        self.move((self.vectors, torch.ones_like(self.counts)), gamma=0)
        self.sums[:, : first.shape[1]] = first
        for _ in range(steps):
            sums, counts = self.totals(k, self.assign(k))
            chosen = counts > 0
            self.move((torch.where(chosen.unsqueeze(-1), sums, self.vectors), torch.where(chosen, counts, 1)), gamma=0)

    def commit_loss(self, k: Tensor, codes: Tensor) -> Tensor:
        """Compute the mean over samples and tokens of Σ over heads of ‖k - SG(c_z)‖²: a number, with a gradient to k."""
        k = k.to(torch.promote_types(k.dtype, self.sums.dtype))
        loss: Tensor = (k - self.lookup(codes, k.dtype)).square().sum((1, 3)).mean()
        return loss


@torch.no_grad()
def nearest(k: Tensor, vectors: Tensor) -> Tensor:
    """Compute argmin_s ‖k - c_s‖²: [B, H, N, D] and [H, S, D] -> int64 [B, H, N].

    In float32 at least, which is TF32 on a GPU where torch may round float32 products: among nearly equal distances the choice
    may then differ.
    """
    vectors = vectors.to(torch.promote_types(k.dtype, sums(vectors.dtype)))
    codes = torch.empty(k.shape[:-1], dtype=torch.int64, device=k.device)
    half_norms = vectors.square().sum(-1).div_(2).unsqueeze(1)
    tokens, distances = _tokens(k, vectors.shape[1]), vectors.new_empty(0)
    for part, out in zip(*(x.split(tokens, dim=2) for x in (k, codes)), strict=True):
        # codes are few and shared by the batch, so heads go first
        rows = part.transpose(0, 1).flatten(1, 2).to(vectors.dtype)
        # ‖k‖² is the same for all codes
        distances = torch.baddbmm(half_norms, rows, vectors.mT, alpha=-1, out=distances.resize_(0))
        # on a CPU nearly three times as fast as argmin
        out.copy_(distances.min(-1).indices.view(part.shape[1], part.shape[0], -1).transpose(0, 1))
    return codes


def rows_of(vectors: Tensor, codes: Tensor) -> Tensor:
    """Look up codebooks [H, S, D] by codes int64 [B, H, N] -> c_z [B, H, N, D]."""
    S, D = vectors.shape[1:]
    return vectors.flatten(0, 1).index_select(0, _numbered(codes, S).flatten()).view(*codes.shape, D)


def _numbered(codes: Tensor, S: int) -> Tensor:
    """Number the codes of all heads consecutively."""
    return codes + torch.arange(0, codes.shape[1] * S, S, device=codes.device).view(-1, 1)


def _tokens(k: Tensor, S: int) -> int:
    """Count the tokens whose distances are in memory at a time; a GPU takes 64 times as many."""
    room = DISTANCES if k.device.type == "cpu" else 64 * DISTANCES
    return max(1, room // (k.shape[0] * k.shape[1] * S))
