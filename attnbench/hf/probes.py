"""Two questions to a language model that only what it read before can answer: associations, and a needle in a text.

S sequences, n ≤ N tokens, U tokens that the text has.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

_AT_ONCE, _NEEDLE = 4, 8


@dataclass(frozen=True)
class Probe:
    """`tokens`, int64 [S, n]; at the places in `asked`, bool [S, n - 1], the next token is the answer."""

    tokens: Tensor
    asked: Tensor

    @torch.no_grad()
    def answered(self, model: PreTrainedModel) -> float:
        """Return the share of the answers that the model holds for the likeliest next token."""
        right = 0
        for tokens, asked in zip(self.tokens.split(_AT_ONCE), self.asked.split(_AT_ONCE), strict=True):
            here = tokens.to(model.device)
            said = model(here, use_cache=False).logits[:, :-1].argmax(-1)
            right += int((said == here[:, 1:])[asked.to(model.device)].sum())
        return right / int(self.asked.sum())


def associations(known: Tensor, S: int, N: int, source: torch.Generator) -> Probe:
    """Draw `k1 v1 k2 v2 … k2 v2 k1 v1 …`: pairs of tokens, and all of them again in another order, whose values are asked for.

    Multi-query associative recall (Arora et al. 2023, arXiv:2312.04927, section 3) as a language model reads it. `known`,
    int64 [U], has the tokens to draw from. There are as many pairs as N and U have room for, at least one.
    """
    pairs = max(1, min(N // 4, len(known) // 2))
    drawn = known[torch.rand(S, len(known), generator=source).topk(2 * pairs).indices].view(S, pairs, 2)
    order = torch.rand(S, pairs, generator=source).argsort(1)
    again = drawn.gather(1, order[:, :, None].expand(-1, -1, 2))
    tokens = torch.cat([drawn, again], dim=1).flatten(1)
    asked = torch.zeros(S, 4 * pairs - 1, dtype=torch.bool)
    asked[:, 2 * pairs :: 2] = True
    return Probe(tokens, asked)


def needle(text: Tensor, known: Tensor, source: torch.Generator) -> Probe:
    """Hide a few tokens drawn from `known` in each text, int64 [S, N], and end it with the first of them: what came then?

    The depths are spread evenly over the sequences, from the beginning to right before the question. Of a needle of 16 tokens,
    or N // 4 where that is less, the first half is the question.
    """
    S, N = text.shape
    half = max(1, min(_NEEDLE, N // 8))
    hidden = known[torch.randint(len(known), (S, 2 * half), generator=source)]
    room = max(0, N - 4 * half)
    depths = torch.linspace(0, room, S).long().tolist()
    rows = [
        torch.cat([row[:depth], straw, row[depth:room], straw]) for row, straw, depth in zip(text, hidden, depths, strict=True)
    ]
    tokens = torch.stack(rows)
    asked = torch.zeros(S, tokens.shape[1] - 1, dtype=torch.bool)
    asked[:, -half:] = True
    return Probe(tokens, asked)
