"""Mixture of block attention (MoBA) in plain torch, below N².

B or b batch, H heads, K heads of k and v, N or n tokens, L tokens of a block, E = topk - 1, D query/key width, M value width.
"""

import torch
from torch import Tensor

from attnbench.api import Attention, Cost, Problem, Scalar, State, Workload, default_scale

from ...partial.heads import of_each_head
from ...partial.rows import softmax_rows
from ..decoding import BlockCache, attend_chosen
from ..moba_cost import cost_of_moba
from ..parameters import refuse_bad_count
from ..reference import chosen_seen, masked_softmax_attention, seen_in_blocks
from .choosing import Choice, by_mean
from .chosen_blocks import Terms, attend_blocks
from .heads import block_means, fold

CHUNK, TOPK = 256, 4


class MobaAttention(Attention):
    """Softmax over `topk` blocks of `block` tokens: the own one, causally, and the earlier ones with the largest q·mean(k).

    Lu et al. 2025, section 2.2, in O(N²/L + N topk L). Each query chooses for itself, and no gradient flows through the choice.
    Where topk covers all blocks it is softmax attention; topk=1 is attention within blocks. Raises ValueError on a bad count.
    """

    paper = "arXiv:2502.13189"
    decodes = appends = True
    causal_only = True
    because = "blocks are chosen among those before the query's own"

    def __init__(self, problem: Problem, block: int = CHUNK, topk: int = TOPK) -> None:
        super().__init__(problem)
        refuse_bad_parameters(block, topk)
        self.choice, self.terms = Choice(block, topk - 1), Terms(block, default_scale(problem))

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count FLOPs and bytes. Raises TypeError or ValueError on bad parameters."""
        return cost_of_moba(problem, workload, choice_of(**params))  # type: ignore[arg-type]

    @classmethod
    def span(cls, problem: Problem, params: dict[str, Scalar]) -> int:  # noqa: ARG003 - whatever the length
        """Count the tokens of all blocks that a query sees; a shorter sequence leaves nothing to choose."""
        choice = choice_of(**params)  # type: ignore[arg-type]
        return choice.block * (choice.count + 1)

    def choose(self, *inputs: Tensor) -> Tensor | None:
        """Choose the earlier blocks of each query, best first: int64 [B, H, N, topk - 1], -1 where there are fewer."""
        q, k, _ = inputs
        (k,) = of_each_head(q, k)
        chosen: Tensor = self._chosen(q.flatten(0, 1), k.flatten(0, 1)).long().unflatten(0, q.shape[:2])
        return chosen

    def forward(self, q: Tensor, k: Tensor, v: Tensor, choices: Tensor | None = None) -> Tensor:
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M] -> [B, H, N, M], differentiable once; choices as of `choose`.

        Heads of q that share one of k and v choose for themselves, so each reads a copy.
        """
        k, v = of_each_head(q, k, v)
        folded = fold(q, k, v)
        chosen = self._chosen(folded[0].squeeze(1), folded[1]) if choices is None else choices.flatten(0, 1)
        return attend_blocks(folded, chosen, self.terms).view(*q.shape[:3], -1)

    def reference(self, q: Tensor, k: Tensor, v: Tensor, choices: Tensor | None = None) -> Tensor:
        """Compute softmax over a dense mask of the choices; without any, make them."""
        chosen = MobaAttention.choose(self, q, k, v) if choices is None else choices
        assert chosen is not None
        return masked_softmax_attention(q, k, v, chosen_seen(chosen, self.terms.block), self.terms.scale)

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor, choices: Tensor | None = None) -> Tensor:  # noqa: ARG002 - all heads alike
        """Compute softmax over the chosen blocks of the queries `at`; choices are [N, topk - 1], or made here."""
        if choices is None:
            made = MobaAttention.choose(self, q[None, None], k[None, None], v[None, None])
            assert made is not None
            choices = made[0, 0]
        return softmax_rows(q[at], k, v, self.terms.scale, seen_in_blocks(at, choices, self.terms.block, len(k)))

    def prefill(self, q: Tensor, k: Tensor, v: Tensor, *, capacity: int, choices: Tensor | None = None) -> tuple[Tensor, State]:
        """Attend to the prompt; keep its keys, values and means of blocks. Raises ValueError where it does not fit."""
        o = self.forward(q, k, v, choices) if q.shape[2] else v.new_empty(*q.shape[:3], v.shape[3])
        return o, BlockCache.of(k, v, capacity, self.terms.block, values=False)

    def step(self, q: Tensor, k: Tensor, v: Tensor, *, state: State, choices: Tensor | None = None) -> tuple[Tensor, State]:
        """Append one token, and attend to its own block and the best earlier ones. Raises ValueError beyond the capacity."""
        cache: BlockCache = state.then(k, v)
        if choices is None:
            (means,) = of_each_head(q, cache.means.keys)
            found = by_mean(q.flatten(0, 1), means.flatten(0, 1), self.choice, cache.last)
            chosen = found.squeeze(1).unflatten(0, q.shape[:2])
        else:
            chosen = choices.squeeze(2)
        return attend_chosen(q, cache.tokens, cache.block, chosen, self.terms.scale), cache

    @torch.no_grad()
    def _chosen(self, q: Tensor, k: Tensor) -> Tensor:
        """Choose for folded heads: [X, N, D] twice -> int [X, N, topk - 1], X = B H."""
        return by_mean(q, block_means(k, self.choice.block), self.choice)


def refuse_bad_parameters(block: int = CHUNK, topk: int = TOPK) -> None:
    """Raise ValueError unless both are whole numbers of 1 or more."""
    refuse_bad_count(block, "block")
    refuse_bad_count(topk, "topk")


def choice_of(block: int = CHUNK, topk: int = TOPK) -> Choice:
    """Describe the choice of given parameters, without building the method. Raises ValueError on a bad count."""
    refuse_bad_parameters(block, topk)
    return Choice(block, topk - 1)
