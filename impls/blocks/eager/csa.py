"""Compressed sparse attention of DeepSeek-V4: a window of tokens, and entries of short blocks that a small scorer chooses.

B or b batch, H heads, I = H / 2 index heads, E = D / 2 their width, N or n tokens, m tokens of a block, C = N // m entries, k
entries that a query keeps, D width of queries and of the one key that is also the value.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from attnbench.api import Cost, Problem, Projection, Scalar, State, Workload

from ...partial.index import index_heads, largest, scores_of
from ...partial.on_paper import on_paper
from ...partial.unlearned import unlearned
from ..compressed_cost import cost
from ..parameters import refuse_bad_count
from .compressed_cache import CompressedCache, Stream
from .compressor import Compressor
from .entries import attend
from .hca import HeavilyCompressed


class CompressedSparse(HeavilyCompressed):
    """Softmax over the last `window` tokens and the `k` entries of largest Σ_i w_ti ReLU(q'_ti · e'), with a sink a head.

    DeepSeek-AI 2026, *DeepSeek-V4*, section 2.3.1, eq. 9-17, as transformers 5.23 has it (CSA). Blocks are short; entries take
    in the block before as well. Inputs are q and c as in `blocks.hca`, u and z [B, 1, N, 2 D], and of the scorer q'
    [B, I, N, E], u' and z' [B, 1, N, 2 E], which are compressed to e' alike, and w [B, I, N]. The choice has no gradient. `k`
    is 64, and 512 and more in the models. Raises ValueError on bad parameters.
    """

    overlaps = True

    def __init__(self, problem: Problem, block: int = 4, window: int = 128, k: int = 64) -> None:
        super().__init__(problem, block, window)
        refuse_bad_count(k, "k")
        self.k = k
        self.compress_index = Compressor(index_heads(problem)[1], block, problem.dtype, overlaps=True)

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count all index scores, and scores and values of tokens and kept entries. Raises TypeError or ValueError."""
        made = on_paper(cls, problem, params)
        return cost(problem, workload, made.reach, made.k)

    @classmethod
    def span(cls, problem: Problem, params: dict[str, Scalar]) -> int:
        """Count the tokens of the window or of all entries kept; a shorter sequence leaves nothing to choose."""
        made = on_paper(cls, problem, params)
        return max(made.reach.window, made.reach.block * made.k)

    @classmethod
    def projections(cls, problem: Problem) -> tuple[Projection, ...]:
        """Name q, the tokens, what is compressed with its gates, and the same of the scorer, with its weights."""
        (heads, width), D = index_heads(problem), problem.D
        own = ("q", problem.H, D), ("kv", 1, D), ("compressed", 1, 2 * D), ("gate", 1, 2 * D)
        scorer = ("index_q", heads, width), ("index_compressed", 1, 2 * width), ("index_gate", 1, 2 * width)
        return tuple(Projection(*each) for each in (*own, *scorer, ("index_weight", heads, 1)))

    @classmethod
    def admit(cls, problem: Problem, *raw: Tensor) -> tuple[Tensor, ...]:
        """Return all as it is, w as a number for each token and index head."""
        *others, w = super().admit(problem, *raw)
        return *others, w.squeeze(-1)

    @torch.no_grad()
    def choose(self, *inputs: Tensor) -> Tensor:
        """Choose the entries of each token: int64 [B, 1, N, min(k, C)], -1 where it sees fewer."""
        index_q, index_u, index_z, w = inputs[4:]
        e = self.compress_index(index_u.squeeze(1), index_z.squeeze(1))
        return largest(index_q, e, w, self.reach.block, self.k).unsqueeze(1)

    def forward(  # type: ignore[override]
        self, q: Tensor, c: Tensor, u: Tensor, z: Tensor, *scorer: Tensor, choices: Tensor | None = None
    ) -> Tensor:
        """Attend: [B, H, N, D], [B, 1, N, D], two [B, 1, N, 2 D] and the scorer's -> [B, H, N, D], differentiable once."""
        kept = self.choose(q, c, u, z, *scorer) if choices is None else choices
        e = self.compress(u.squeeze(1), z.squeeze(1))
        # without a whole block there is nothing to keep
        o = attend(q, c.squeeze(1), e, self.sink, self.reach, kept.squeeze(1) if e.shape[1] else None)
        return self._unlearned(o, scorer)

    def reference(  # type: ignore[override]
        self, q: Tensor, c: Tensor, u: Tensor, z: Tensor, *scorer: Tensor, choices: Tensor | None = None
    ) -> Tensor:
        """Compute all scores of tokens and entries, and hide those that were not chosen."""
        kept = self.choose(q, c, u, z, *scorer) if choices is None else choices
        o = self.densely(q, c.squeeze(1), self.compress.reference(u.squeeze(1), z.squeeze(1)), kept.squeeze(1))
        return self._unlearned(o, scorer)

    def rows(  # type: ignore[override]
        self, head: int, at: Tensor, q: Tensor, c: Tensor, u: Tensor, z: Tensor, *_: Tensor, choices: Tensor | None = None
    ) -> Tensor:
        """Compute the scores of the queries `at` of one head with all tokens and the chosen entries [N, k]."""
        return self.some_rows(head, at, q, c, self.compress.reference(u.unsqueeze(0), z.unsqueeze(0))[0], choices)

    def streams(self, *inputs: Tensor) -> Sequence[Stream]:
        """Return what is compressed of these inputs, of the attention and of the scorer."""
        _, _, u, z, _, index_u, index_z, _ = inputs
        return (self.compress, u, z), (self.compress_index, index_u, index_z)

    def prefill(self, *inputs: Tensor, capacity: int, choices: Tensor | None = None) -> tuple[Tensor, State]:
        """Attend to the prompt, and keep its last tokens and its entries. Raises ValueError where it does not fit."""
        o = self(*inputs, choices=choices) if inputs[0].shape[2] else torch.empty_like(inputs[0])
        return o.detach(), self.state_after(*inputs, capacity=capacity)

    @torch.no_grad()
    def step(self, *inputs: Tensor, state: State, choices: Tensor | None = None) -> tuple[Tensor, State]:
        """Append one token, and attend to it, those before it and the chosen entries. Raises ValueError beyond the capacity."""
        cache: CompressedCache = state.then(inputs[1], self.streams(*inputs))
        q, index_q, w, ended = inputs[0], inputs[4], inputs[7], cache.length // self.reach.block
        own, index = (held.made[:, :ended] for held in cache.entries)
        if choices is None or not ended:
            kept = scores_of(index_q, index, w)[:, 0].topk(min(self.k, ended), dim=-1).indices
        else:
            kept = choices.view(len(q), -1)
        return self.from_last(q, cache, own.take_along_dim(kept.clamp(min=0).unsqueeze(-1), 1), kept < 0), cache

    def _unlearned(self, o: Tensor, scorer: Sequence[Tensor]) -> Tensor:
        return unlearned(o, *scorer, *self.compress_index.parameters())
