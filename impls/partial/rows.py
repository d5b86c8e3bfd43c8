"""A few rows of softmax attention by its definition, for one head of one sequence.

n queries, S keys, N tokens, D query/key width, M value width.
"""

import torch
from torch import Tensor


def softmax_rows(
    q: Tensor, k: Tensor, v: Tensor, scale: float, seen: Tensor | None = None, sink: Tensor | None = None
) -> Tensor:
    """Compute softmax(scale q kᵀ) v over the keys that are seen: [n, D], [S, D], [S, M], bool [n, S] -> [n, M].

    A query that sees no key gets 0. `sink`, a number, is one more score, whose weight goes to nothing. Holds n S scores.
    """
    scores = q @ k.mT * scale
    if sink is not None:
        hidden = torch.zeros_like(scores, dtype=torch.bool) if seen is None else ~seen
        with_sink = torch.cat((scores.masked_fill(hidden, -torch.inf), sink.expand(len(q), 1).to(scores.dtype)), 1)
        return with_sink.softmax(-1)[:, :-1] @ v
    if seen is None:
        return scores.softmax(-1) @ v
    # where a query sees nothing, softmax gives NaN: the two fills keep it out of the output and of gradients
    return scores.masked_fill(~seen, -torch.inf).softmax(-1).masked_fill(~seen, 0) @ v


def seen_by(at: Tensor, N: int, *, causal: bool, key_mask: Tensor | None = None) -> Tensor:
    """Mark which of N keys the queries at tokens `at` see, bool [n, N]: if causal j ≤ i, and never those key_mask [N] hides."""
    j = torch.arange(N, device=at.device)
    seen = j <= at.unsqueeze(1) if causal else torch.ones(len(at), N, dtype=torch.bool, device=at.device)
    return seen if key_mask is None else seen & key_mask
