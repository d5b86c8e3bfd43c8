"""Masks: what a query may see, as the tensors that the implementations need.

B batch, N queries, S keys; if causal, the last query sees all S keys. key_mask is bool [B, S], False where hidden.
"""

import math

import torch
from torch import Tensor


def visible(key_mask: Tensor | None, N: int, S: int, *, causal: bool, device: torch.device) -> Tensor:
    """Mark where a query may see a key: bool [B or 1, 1, N or 1, S]."""
    keys = torch.ones(1, 1, 1, S, dtype=torch.bool, device=device) if key_mask is None else key_mask[:, None, None, :]
    return keys & torch.ones(N, S, dtype=torch.bool, device=device).tril(S - N) if causal else keys


def later(x: Tensor, N: int, S: int) -> Tensor:
    """Build an addend that hides later keys: -inf there and 0 elsewhere, [N, S] in the dtype of x."""
    return x.new_full((N, S), -math.inf).triu_(1 + S - N)


def unseen(key_mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Build an addend that hides keys whose scores are 0: [B, 1, S], so low that a weight beside any visible key is exactly 0.

    It is finite, so that the row of a query that sees nothing stays finite; `sees_nothing` tells which outputs to clear.
    """
    low = torch.zeros_like(key_mask, dtype=dtype).masked_fill_(~key_mask, torch.finfo(dtype).min)
    return low.unsqueeze(1)


def sees_nothing(key_mask: Tensor, *, causal: bool) -> Tensor:
    """Mark queries without any key to see: bool [B, N], or [B, 1] where all queries see the same."""
    return key_mask.cumsum(1) == 0 if causal else ~key_mask.any(1, keepdim=True)
