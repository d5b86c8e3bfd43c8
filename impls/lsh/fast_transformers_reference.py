"""LSH attention as pytorch-fast-transformers defines it, given the sorted order.

B batch and heads folded, R rounds, N tokens (queries × keys where twice), D query/key width, M value width.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from .candidates import times_seen
from .fast_transformers_options import Options

OWN = -1e9
"""Added to the product of a token with itself where it is masked."""


def fast_transformers_attention(qk: Tensor, v: Tensor, order_BRN: Tensor, options: Options, *, causal: bool) -> Tensor:
    """The mean over rounds of softmax among neighbours in sorted order: [B, N, D], [B, N, M] -> [B, N, M].

    As pytorch-fast-transformers 0.4 has it: logits q·k̂ / √D with k̂ = q / ‖q‖, the own chunk and the one before, which the
    first chunk of a round lacks; keys of other buckets count too.
    """
    N = qk.shape[1]
    logits_BNN = qk @ F.normalize(qk, dim=-1).mT
    if options.masked:
        logits_BNN = logits_BNN + OWN * torch.eye(N, dtype=qk.dtype, device=qk.device)
    seen = times_seen(order_BRN, options.bucket_size, (-1, 0), closed=False) > 0
    if causal:
        seen = seen.tril()
    logits = (logits_BNN / qk.shape[-1] ** 0.5).masked_fill(~seen, -torch.inf)  # for each round: [R, B, N, N]
    o: Tensor = (logits.softmax(-1) @ v).mean(0)
    return o
