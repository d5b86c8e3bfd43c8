"""Base class of attentions over projected keys: everything but the projection.

B batch, H heads, K heads of k and v, N tokens, S projected keys, D query/key width, M value width, C = D or M.
"""

from abc import abstractmethod

from torch import Tensor

from attnbench.api import Attention, Causality, Layout, default_scale

from ..partial.fused import attend
from ..partial.rows import softmax_rows
from .reference import attend_to, visible

EVERY = slice(None)


class ProjectedKeys(Attention):
    """o = softmax(q k̄ᵀ / √D) v̄, where k̄ and v̄ are a few mixtures of all keys and values, in O(N S).

    Wang et al. 2020, eq. 7. Keys that `key_mask` hides, and their values, become zeros before they are mixed, which hides them
    from every query; the number of mixtures stays the same. Never causal. Takes any kv_heads that divides H.
    """

    paper = "arXiv:2006.04768"
    causality = Causality.NONE
    masks = True
    layout = Layout.BNHD  # makes the heads of a token one row of a product, and is what fused attention reads
    because = "each projected key mixes all positions; a triangle over them, as linformer-pytorch has it, leaks the future"

    def forward(self, q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None = None) -> Tensor:
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M], bool [B, N] -> [B, H, N, M], differentiable."""
        keys, values = self.project(_visible(k, key_mask), _visible(v, key_mask))
        return attend(q, keys.transpose(1, 2), values.transpose(1, 2))

    def reference(self, q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None = None) -> Tensor:
        """Compute the same by dense matrices."""
        return attend_to(q, *self.project_densely(visible(k, key_mask), visible(v, key_mask)))

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None = None) -> Tensor:
        """Compute softmax of the queries `at` over all projected keys, by dense matrices."""
        own = head * self.problem.kv_heads // self.problem.H
        if key_mask is not None:
            k, v = (x.masked_fill(~key_mask.unsqueeze(1), 0) for x in (k, v))
        keys, values = self.project_densely(k[None, None], v[None, None], slice(own, own + 1))
        return softmax_rows(q[at], keys[0, 0], values[0, 0], default_scale(self.problem))

    @abstractmethod
    def project(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Project keys and values: [B, N, K, D], [B, N, K, M] -> [B, S, K, D], [B, S, K, M]."""

    @abstractmethod
    def project_densely(self, k: Tensor, v: Tensor, heads: slice = EVERY) -> tuple[Tensor, Tensor]:
        """Project by definition: [B, K, N, D], [B, K, N, M] -> [B, K, S, D], [B, K, S, M]; all heads of keys, or some."""


def _visible(x: Tensor, key_mask: Tensor | None) -> Tensor:
    """Set hidden rows to zero: [B, K, N, C] -> [B, N, K, C]."""
    x_BNKC = x.transpose(1, 2)
    return x_BNKC if key_mask is None else x_BNKC.masked_fill(~key_mask[:, :, None, None], 0)
