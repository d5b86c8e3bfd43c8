"""Block masks for FlexAttention from lengths alone, without the dense N × N mask that `create_block_mask` evaluates.

B batch, N tokens, L tokens of a block, S = N / L blocks, rounded up.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, and_masks

L = 128
"""Tokens of a block: FlexAttention's own default; its GPU kernels accept no smaller one."""


def block_mask(
    N: int, device: torch.device, *, causal: bool, key_mask: Tensor | None = None, documents: tuple[int, ...] = ()
) -> BlockMask:
    """Build the mask [B or 1, 1, N, N]: which blocks a query block visits, and which of them are masked within.

    key_mask is bool [B, N]; `documents` are the lengths of what lies one after the other, and sees nothing of each other.
    Time and memory O(B S²).
    """
    S = -(-N // L)
    some_B1S, all_B1S = _seen(key_mask, N, S, device)
    if causal:
        earlier = torch.ones(S, S, dtype=torch.bool, device=device).tril(-1)
        own = torch.eye(S, dtype=torch.bool, device=device)
        partial = (own & some_B1S) | (earlier & some_B1S & ~all_B1S)
        full = earlier & all_B1S
    else:
        partial, full = ((x.expand(-1, S, S)) for x in (some_B1S & ~all_B1S, all_B1S))
    of_token = None
    if documents:
        of_token = torch.repeat_interleave(torch.tensor(documents, device=device))
        meet, same = _documents_of_blocks(of_token, S)
        partial, full = (partial | full & ~same) & meet, full & same
    rule = _rule(key_mask, causal, of_token)
    return BlockMask.from_kv_blocks(*_listed(partial), *_listed(full), BLOCK_SIZE=L, mask_mod=rule, seq_lengths=(N, N))


def _seen(key_mask: Tensor | None, N: int, S: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Mark key blocks with some visible keys, and with all: bool [B or 1, 1, S]; a shorter last one never counts as whole."""
    keys_BN = torch.ones(1, N, dtype=torch.bool, device=device) if key_mask is None else key_mask
    blocks_B1SL = F.pad(keys_BN, (0, S * L - N)).unflatten(1, (1, S, L))
    return blocks_B1SL.any(-1), blocks_B1SL.all(-1)


def _documents_of_blocks(of_token: Tensor, S: int) -> tuple[Tensor, Tensor]:
    """Mark pairs of blocks that have a document in common, and those that lie in one: bool [S, S] each, from int64 [N]."""
    first = of_token[::L]
    last = of_token[torch.arange(1, S + 1, device=of_token.device).mul(L).clamp(max=len(of_token)) - 1]
    meet = (first.unsqueeze(1) <= last) & (first <= last.unsqueeze(1))
    return meet, (first.unsqueeze(1) == last) & (first == last.unsqueeze(1))


def _listed(blocks_BSS: Tensor) -> tuple[Tensor, Tensor]:
    """Count and list each query block's blocks: int32 [B, 1, S], and [B, 1, S, S] with those blocks first."""
    which = blocks_BSS.int().argsort(dim=-1, descending=True, stable=True).int()
    return blocks_BSS.sum(-1, dtype=torch.int32).unsqueeze(1), which.unsqueeze(1).contiguous()


def _rule(key_mask: Tensor | None, causal: bool, of_token: Tensor | None) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    """Build the mask within a block, a function of sample, head, query and key."""

    def not_later(_b: Tensor, _h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return i >= j

    def seen(b: Tensor, _h: Tensor, _i: Tensor, j: Tensor) -> Tensor:
        assert key_mask is not None
        return key_mask[b, j]

    def of_one_document(_b: Tensor, _h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        assert of_token is not None
        return of_token[i] == of_token[j]

    rules = ((not_later, causal), (seen, key_mask is not None), (of_one_document, of_token is not None))
    return and_masks(*(rule for rule, holds in rules if holds))
