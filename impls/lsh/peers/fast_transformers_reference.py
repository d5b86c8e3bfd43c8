"""LSH attention as pytorch-fast-transformers defines it, given the sorted order.

B batch and heads folded, R rounds, N tokens, n queries (all N, or some), D query/key width, M value width.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from .candidates import times_seen
from .fast_transformers_options import Options

OWN = -1e9
"""What is added to the product of a token with itself where that is masked."""


def fast_transformers_attention(
    qk: Tensor, v: Tensor, order_BRN: Tensor, options: Options, *, causal: bool, at: Tensor | None = None
) -> Tensor:
    """Compute the mean over rounds of softmax among neighbours in sorted order: [B, N, D], [B, N, M] -> [B, n, M].

    Queries are those of all tokens, or of tokens `at`, int64 [n]. As in pytorch-fast-transformers 0.4: logits q·k̂ / √D with k̂
    = q / ‖q‖, over the own chunk and the one before, which the first chunk of a round lacks; keys of other buckets count too.
    """
    j = torch.arange(qk.shape[1], device=qk.device)
    at = j if at is None else at
    logits_BnN = qk[:, at] @ F.normalize(qk, dim=-1).mT
    if options.masked:
        logits_BnN = logits_BnN + OWN * (at.unsqueeze(1) == j)
    seen = times_seen(order_BRN, options.bucket_size, (-1, 0), at, closed=False) > 0
    if causal:
        seen = seen & (j <= at.unsqueeze(1))
    logits = (logits_BnN / qk.shape[-1] ** 0.5).masked_fill(~seen, -torch.inf)  # for each round: [R, B, n, N]
    o: Tensor = (logits.softmax(-1) @ v).mean(0)
    return o
