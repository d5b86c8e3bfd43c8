"""Heavily compressed attention of DeepSeek-V4: a window of tokens, and one entry for each long block before.

B or b batch, H heads, N or n tokens, W tokens of the window, m tokens of a block, C = N // m entries, k entries that a query
keeps, D width of queries and of the one key that is also the value.
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from attnbench.api import Attention, Cost, Problem, Projection, Scalar, State, Workload, default_scale

from ...partial.on_paper import on_paper
from ...partial.softmax import sums
from ..compressed_cost import cost
from ..parameters import refuse_bad_count
from .compressed_cache import CompressedCache, Stream
from .compressor import Compressor
from .entries import Reach, attend


class HeavilyCompressed(Attention):
    """Softmax over the last `window` tokens and an entry for each block of `block` tokens that has ended, with a sink a head.

    DeepSeek-AI 2026, *DeepSeek-V4*, section 2.3.2, eq. 20-23, as transformers 5.23 has it (HCA). Key and value are one tensor,
    and one for all heads. Inputs are q, c (the tokens), u (what is compressed) and its gates z, each of the last three
    [B, 1, N, D]. In O(N (W + N / m)) time. The rotation of queries, keys and output is not part of the attention. Raises
    ValueError on bad parameters.
    """

    paper = "DeepSeek-V4 (DeepSeek-AI 2026)"
    decodes = True
    causal_only = True
    because = "a block is seen by those after it"
    grouped = False
    one_width = True
    weighs = False
    overlaps: ClassVar[bool] = False

    def __init__(self, problem: Problem, block: int = 128, window: int = 128) -> None:
        super().__init__(problem)
        refuse_bad_count(block, "block")
        refuse_bad_count(window, "window")
        self.reach = Reach(window, block, default_scale(problem))
        self.compress = Compressor(problem.D, block, problem.dtype, overlaps=self.overlaps)
        self.sink = nn.Parameter(torch.randn(problem.H).to(getattr(torch, problem.dtype)))

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count scores and values of tokens and entries. Raises TypeError or ValueError on bad parameters."""
        return cost(problem, workload, on_paper(cls, problem, params).reach)

    @classmethod
    def projections(cls, problem: Problem) -> tuple[Projection, ...]:
        """Name q, the tokens, what is compressed, and its gates."""
        return Projection("q", problem.H, problem.D), *(Projection(n, 1, problem.D) for n in ("kv", "compressed", "gate"))

    def forward(self, q: Tensor, c: Tensor, u: Tensor, z: Tensor) -> Tensor:  # type: ignore[override]
        """Attend: [B, H, N, D] and three [B, 1, N, D] -> [B, H, N, D], differentiable once."""
        return attend(q, c.squeeze(1), self.compress(u.squeeze(1), z.squeeze(1)), self.sink, self.reach)

    def reference(self, q: Tensor, c: Tensor, u: Tensor, z: Tensor) -> Tensor:  # type: ignore[override]
        """Compute all scores of tokens and entries."""
        return self.densely(q, c.squeeze(1), self.compress.reference(u.squeeze(1), z.squeeze(1)))

    def rows(self, head: int, at: Tensor, q: Tensor, c: Tensor, u: Tensor, z: Tensor) -> Tensor:  # type: ignore[override]
        """Compute the scores of the queries `at` of one head with all tokens and entries."""
        return self.some_rows(head, at, q, c, self.compress.reference(u.unsqueeze(0), z.unsqueeze(0))[0])

    def exact(self, q: Tensor, c: Tensor, *_: Tensor) -> Tensor:
        """Softmax attention over all tokens, without entries and sink."""
        return super().exact(q, c, c)

    def streams(self, *inputs: Tensor) -> Sequence[Stream]:
        """Return what is compressed of these inputs."""
        _, _, u, z = inputs
        return ((self.compress, u, z),)

    def prefill(self, *inputs: Tensor, capacity: int) -> tuple[Tensor, State]:
        """Attend to the prompt, and keep its last tokens and its entries. Raises ValueError where it does not fit."""
        o = self(*inputs) if inputs[0].shape[2] else torch.empty_like(inputs[0])
        return o.detach(), self.state_after(*inputs, capacity=capacity)

    @torch.no_grad()
    def state_after(self, *inputs: Tensor, capacity: int) -> State:
        """Keep the last tokens, the entries, and the block that is not whole. Raises ValueError where they do not fit."""
        return CompressedCache.of(inputs[1], self.streams(*inputs), self.reach.window, capacity)

    @torch.no_grad()
    def step(self, *inputs: Tensor, state: State) -> tuple[Tensor, State]:
        """Append one token, and attend to it, those before it and the entries. Raises ValueError beyond the capacity."""
        cache: CompressedCache = state.then(inputs[1], self.streams(*inputs))
        entries = cache.entries[0].made[:, : cache.length // self.reach.block]
        return self.from_last(inputs[0], cache, entries), cache

    def from_last(self, q: Tensor, cache: CompressedCache, entries: Tensor, absent: Tensor | None = None) -> Tensor:
        """Attend from the last token to entries [b, E, D] except `absent` ones [b, E]: [b, H, 1, D] -> [b, H, 1, D]."""
        keys, wide = torch.cat((cache.tokens, entries), 1).unsqueeze(1), sums(q.dtype)
        scores = (q @ keys.mT).to(wide) * self.reach.scale
        if absent is not None and absent.shape[1]:
            scores[..., -absent.shape[1] :].masked_fill_(absent[:, None, None], -torch.inf)
        total = torch.logaddexp(scores.logsumexp(-1), self.sink.to(wide).view(1, -1, 1))
        return (scores - total.unsqueeze(-1)).exp_().to(q.dtype) @ keys

    def densely(self, q: Tensor, c: Tensor, e: Tensor, kept: Tensor | None = None) -> Tensor:
        """Evaluate the definition over tokens [B, N, D] and entries [B, C, D], of which a query sees all or those in `kept`."""
        at = torch.arange(c.shape[1], device=q.device)
        seen = _seen(at, c.shape[1], e.shape[1], self.reach, kept)
        return self._weighed(
            q, torch.cat((c, e), 1).unsqueeze(1), seen.view(-1, 1, *seen.shape[-2:]), self.sink.view(1, -1, 1, 1)
        )

    def some_rows(self, head: int, at: Tensor, q: Tensor, c: Tensor, e: Tensor, kept: Tensor | None = None) -> Tensor:
        """Evaluate it for the queries `at` of one head of one sequence: [N, D], [N, D], [C, D], [N, k] -> [n, D]."""
        seen = _seen(at, len(c), len(e), self.reach, None if kept is None else kept[at])
        return self._weighed(q[at], torch.cat((c, e), 0), seen, self.sink[head].view(1, 1))

    def _weighed(self, q: Tensor, keys: Tensor, seen: Tensor, sink: Tensor) -> Tensor:
        scores = (q @ keys.mT * self.reach.scale).masked_fill(~seen, -torch.inf)
        return torch.cat((scores, sink.expand(*scores.shape[:-1], 1)), -1).softmax(-1)[..., :-1] @ keys


def _seen(at: Tensor, N: int, C: int, reach: Reach, kept: Tensor | None) -> Tensor:
    """Mark the tokens and the entries that the queries at tokens `at` see, bool [..., n, N + C]; kept [..., n, k]."""
    t, s, i = at.unsqueeze(-1), torch.arange(N, device=at.device), torch.arange(C, device=at.device)
    tokens, entries = (s <= t) & (s > t - reach.window), i < (t + 1) // reach.block
    if kept is not None:
        # an additional column takes the writes for absent entries
        chosen = torch.zeros(*kept.shape[:-1], C + 1, dtype=torch.bool, device=at.device)
        entries = entries & chosen.scatter_(-1, torch.where(kept < 0, C, kept), value=True)[..., :-1]
    return torch.cat((tokens.expand(*entries.shape[:-1], -1), entries), -1)
