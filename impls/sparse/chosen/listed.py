"""Base class of attention to tokens that an index lists, the same for all heads.

B or b batch, H heads, K heads of k and v, N tokens, k tokens listed, D query/key width, M value width.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from attnbench.api import Attention, Problem, default_scale

from ...partial.cache import KvCache
from ...partial.index import ABSENT
from ...partial.rows import softmax_rows
from ...partial.softmax import sums
from ...partial.unlearned import unlearned
from ..reference import masked_softmax_attention
from .kept_keys import attend_kept


class ListedTokens(Attention):
    """Softmax over the tokens that `choose` lists, int64 [B, 1, N, k]; after q, k and v come the inputs of the index.

    The choice has no gradient.
    """

    decodes = appends = True
    causal_only = True

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.scale = default_scale(problem)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *scorer: Tensor, choices: Tensor | None = None) -> Tensor:
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M] and the index' -> [B, H, N, M], differentiable once."""
        kept = self._listed(q, k, v, *scorer) if choices is None else choices
        return unlearned(self._attend(q, k, v, kept), *scorer)

    def reference(self, q: Tensor, k: Tensor, v: Tensor, *scorer: Tensor, choices: Tensor | None = None) -> Tensor:
        """Compute softmax over a dense mask of the choices, or of newly made ones."""
        kept = self._listed(q, k, v, *scorer) if choices is None else choices
        return unlearned(masked_softmax_attention(q, k, v, _listed_mask(kept, k.shape[2])), *scorer)

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor, *_: Tensor, choices: Tensor | None = None) -> Tensor:  # noqa: ARG002 - all heads alike
        """Compute softmax over the listed tokens [N, k] of the queries `at`."""
        assert choices is not None
        return softmax_rows(q[at], k, v, self.scale, _listed_mask(choices[at], len(k)))

    def exact(self, q: Tensor, k: Tensor, v: Tensor, *_: Tensor) -> Tensor:
        """Softmax attention over all keys: the index is left out."""
        return super().exact(q, k, v)

    def from_last(self, q: Tensor, cache: KvCache, kept: Tensor) -> Tensor:
        """Attend from the last n tokens to those listed, negative where there is none: [b, H, n, D], [b, 1, n, k]."""
        # all of the cache, with room that is not written yet: the tokens so far are not dense, and would be copied
        k, v, listed = cache.k, cache.v, kept[0].numel()
        if sums(k.dtype) is not k.dtype and listed < k.shape[2]:
            # in half precision all rows are widened, so only those that are listed are taken
            heads = torch.arange(len(k) * k.shape[1], device=k.device).view(len(k), -1, 1)
            rows = kept.clamp(min=0).flatten(2) + heads * k.shape[2]
            k, v = (F.embedding(rows, x.flatten(0, 2)) for x in (k, v))
            places = torch.arange(listed, device=kept.device).view(kept.shape[1:])
            kept = places.expand_as(kept).masked_fill(kept < 0, ABSENT)
        return self._attend(q.detach(), k, v, kept)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, kept: Tensor) -> Tensor:
        folded = q.reshape(-1, q.shape[1] // k.shape[1], *q.shape[2:])
        return attend_kept(folded, k.flatten(0, 1), v.flatten(0, 1), kept, self.scale).view(*q.shape[:3], v.shape[3])

    def _listed(self, *inputs: Tensor) -> Tensor:
        kept = self.choose(*inputs)
        assert kept is not None
        return kept


def _listed_mask(kept: Tensor, N: int) -> Tensor:
    """Mark the tokens in a list, negative where there is none: [..., k] -> bool [..., N]."""
    # an additional column takes the writes for absent tokens
    mask = torch.zeros(*kept.shape[:-1], N + 1, dtype=torch.bool, device=kept.device)
    return mask.scatter_(-1, torch.where(kept < 0, N, kept), value=True)[..., :-1]
