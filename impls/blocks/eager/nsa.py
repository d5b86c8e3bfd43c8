"""Natively trainable sparse attention (NSA) in plain torch; only the means of blocks cost N² / L.

B or b batch, H heads, K heads of k and v, R = H / K, N or n tokens, L tokens of a block, C complete blocks, E = selected - 1, D
query/key width, M value width.
"""

import torch
from torch import Tensor

from attnbench.api import Attention, Cost, Problem, Projection, Scalar, State, Workload, default_scale

from ...partial.rows import softmax_rows
from ..decoding import BlockCache, attend_chosen, attend_keys
from ..nsa_cost import cost_of_nsa
from ..nsa_options import NsaOptions
from ..reference import chosen_seen, complete_seen, masked_softmax_attention, seen_in_blocks, window_seen
from .choosing import Choice, block_weights, by_weight, most_weighty
from .chosen_blocks import Terms, attend_blocks
from .heads import block_means, fold
from .tiled import attend_tiles
from .tiles import Stairs, Tiling, Window


class NsaAttention(Attention):
    """Sum of three gated softmaxes: over means of blocks, over `selected` blocks, and over the last `window` tokens.

    Yuan et al. 2025, sections 3.2 and 3.3, with blocks of `block` tokens that are compressed by their mean, as in
    flash-linear-attention, where the paper has an MLP over overlapping blocks. Heads that share k and v select alike. After q,
    k and v come the inputs g_cmp, g_slc and g_swa, each [B, H, N] in (0, 1). No gradient flows through the selection. Raises
    ValueError on bad parameters.
    """

    paper = "arXiv:2502.11089"
    decodes = appends = True
    causal_only = True
    because = "blocks are selected among those before the query's own"

    def __init__(self, problem: Problem, block: int = 64, selected: int = 16, window: int = 512) -> None:
        super().__init__(problem)
        self.options, self.scale = NsaOptions(block, selected, window), default_scale(problem)
        self.choice = Choice(block, selected - 1)

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count the pairs of the three branches. Raises TypeError or ValueError on bad parameters."""
        return cost_of_nsa(problem, workload, NsaOptions(**params))  # type: ignore[arg-type]

    @classmethod
    def projections(cls, problem: Problem) -> tuple[Projection, ...]:
        """Name q, k, v and the three numbers per query from which the gates are made."""
        gates = (Projection(name, problem.H, 1) for name in ("compressed", "selected", "window"))
        return *super().projections(problem), *gates

    @classmethod
    def admit(cls, problem: Problem, *raw: Tensor) -> tuple[Tensor, ...]:
        """Return q, k, v and three gates σ(x)."""
        q, k, v, *gates = super().admit(problem, *raw)
        return q, k, v, *(x.sigmoid().squeeze(-1) for x in gates)

    @classmethod
    def span(cls, problem: Problem, params: dict[str, Scalar]) -> int:  # noqa: ARG003 - whatever the length
        """Count the tokens of the window or of all selected blocks, whichever are more."""
        options = NsaOptions(**params)  # type: ignore[arg-type]
        return max(options.window, options.block * options.selected)

    @torch.no_grad()
    def choose(self, *inputs: Tensor) -> Tensor | None:
        """Select blocks besides the own one, best first: int64 [B, K, N, selected - 1], -1 where there are fewer."""
        q, k, _ = fold(*inputs[:3])
        found = by_weight(q, block_means(k, self.choice.block), self.choice, self.scale)
        chosen: Tensor = found.long().unflatten(0, inputs[1].shape[:2])
        return chosen

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *gates: Tensor, choices: Tensor | None = None) -> Tensor:
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M], three gates [B, H, N] -> [B, H, N, M], differentiable once."""
        folded, options = fold(q, k, v), self.options
        g_cmp, g_slc, g_swa = (g.reshape(*folded[0].shape[:3], 1) for g in gates)
        means = folded[0], block_means(folded[1], options.block), block_means(folded[2], options.block)
        chosen = self._chosen(*means[:2]) if choices is None else choices.flatten(0, 1)
        # without gradients, each branch is freed before the next is computed
        o = attend_blocks(folded, chosen, Terms(options.block, self.scale)) * g_slc
        o.addcmul_(attend_tiles(means, Tiling(Stairs(options.block), self.scale)), g_cmp)
        o.addcmul_(attend_tiles(folded, Tiling(Window(options.window), self.scale)), g_swa)
        return o.view(*q.shape[:3], -1)

    def reference(self, q: Tensor, k: Tensor, v: Tensor, *gates: Tensor, choices: Tensor | None = None) -> Tensor:
        """Compute each branch with a dense mask, with the given choices or newly made ones."""
        N, options = q.shape[2], self.options
        chosen = NsaAttention.choose(self, q, k, v) if choices is None else choices
        assert chosen is not None
        k_mean, v_mean = (block_means(x, options.block) for x in (k, v))
        o_cmp = masked_softmax_attention(q, k_mean, v_mean, complete_seen(N, options.block, q.device), self.scale)
        o_slc = masked_softmax_attention(q, k, v, chosen_seen(chosen, options.block), self.scale)
        o_swa = masked_softmax_attention(q, k, v, window_seen(N, options.window, q.device), self.scale)
        g_cmp, g_slc, g_swa = (g.unsqueeze(-1) for g in gates)
        return g_cmp * o_cmp + g_slc * o_slc + g_swa * o_swa

    def rows(
        self,
        head: int,  # noqa: ARG002 - heads are alike
        at: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *gates: Tensor,
        choices: Tensor | None = None,
    ) -> Tensor:
        """Compute the three branches for the queries `at`, with choices [N, selected - 1]."""
        assert choices is not None
        block, q = self.options.block, q[at]
        i, j = at.unsqueeze(1), torch.arange(len(k), device=at.device)
        complete = (torch.arange(len(k) // block, device=at.device) + 1) * block - 1 <= i
        near = (i - j >= 0) & (i - j < self.options.window)
        o_cmp = softmax_rows(q, block_means(k, block), block_means(v, block), self.scale, complete)
        o_slc = softmax_rows(q, k, v, self.scale, seen_in_blocks(at, choices, block, len(k)))
        o_swa = softmax_rows(q, k, v, self.scale, near)
        g_cmp, g_slc, g_swa = (g[at].unsqueeze(-1) for g in gates)
        return g_cmp * o_cmp + g_slc * o_slc + g_swa * o_swa

    def exact(self, q: Tensor, k: Tensor, v: Tensor, *_: Tensor) -> Tensor:
        """Softmax attention over all keys: the gates are left out."""
        return super().exact(q, k, v)

    def prefill(
        self, q: Tensor, k: Tensor, v: Tensor, *gates: Tensor, capacity: int, choices: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Attend to the prompt; keep its keys, values and means of blocks. Raises ValueError where it does not fit."""
        o = self.forward(q, k, v, *gates, choices=choices) if q.shape[2] else v.new_empty(*q.shape[:3], v.shape[3])
        return o, BlockCache.of(k, v, capacity, self.options.block, values=True)

    def step(
        self, q: Tensor, k: Tensor, v: Tensor, *gates: Tensor, state: State, choices: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Append one token, and attend in all three branches. Raises ValueError beyond the capacity."""
        cache: BlockCache = state.then(k, v)
        shared = q.unflatten(1, (k.shape[1], -1)).squeeze(3)
        g_cmp, g_slc, g_swa = (g.reshape(*shared.shape[:3], 1) for g in gates)
        weights = self._weights(shared, cache)
        chosen = self._select(weights, cache) if choices is None else choices.squeeze(2)
        near_k, near_v = (x[:, :, -self.options.window :] for x in (cache.tokens.keys, cache.tokens.values))
        o = attend_chosen(shared, cache.tokens, cache.block, chosen, self.scale) * g_slc
        o.addcmul_(weights.to(v.dtype) @ cache.means.values, g_cmp)
        o.addcmul_(attend_keys(shared, near_k, near_v, self.scale), g_swa)
        return o.view(*q.shape[:3], -1), cache

    @torch.no_grad()
    def _chosen(self, q: Tensor, means: Tensor) -> Tensor:
        return by_weight(q, means, self.choice, self.scale)

    def _weights(self, q: Tensor, cache: BlockCache) -> Tensor:
        """Weigh all complete blocks by the last token's queries: [b, K, R, D] -> [b, K, R, C]."""
        last = torch.full((1,), cache.last, device=q.device)
        keys, queries = cache.means.keys.flatten(0, 1), q.flatten(0, 1).unsqueeze(2)
        weights = block_weights(queries, keys, last, cache.block, self.scale).squeeze(2)
        shaped: Tensor = weights.unflatten(0, q.shape[:2])
        return shaped

    def _select(self, weights: Tensor, cache: BlockCache) -> Tensor:
        """Select the last token's blocks from their weights: [b, K, R, C] -> int [b, K, E]."""
        own = torch.full((1,), cache.last // cache.block, device=weights.device)
        found = most_weighty(weights.flatten(0, 1).unsqueeze(2), own, self.choice.count)
        chosen: Tensor = found.squeeze(1).unflatten(0, weights.shape[:2])
        return chosen
