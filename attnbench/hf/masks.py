"""The tokens that a layer may see, as a model states them: the mask interface of transformers, named like a registered method.

Without a mask function of that name a model gives no mask at all, and causality would be lost without a word.
B rows, N queries, S keys.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.masking_utils import bidirectional_mask_function, causal_mask_function

from attnbench.hf.refusals import CannotError


@dataclass(frozen=True)
class Seen:
    """A few facts in the place of a mask of N × S booleans."""

    causal: bool
    keys: Tensor | None
    """The keys that exist, bool [B, S]; None where all do."""
    window: int | None
    """The last tokens that a query sees, its own among them; None where it sees all before it."""
    dropped: int = 0
    """The keys before these, which the cache of a layer with a window no longer has."""


def seen(  # noqa: PLR0913 - as transformers calls it
    *,
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | Tensor = 0,
    kv_offset: int = 0,
    mask_function: Callable[..., Any] = causal_mask_function,
    attention_mask: Tensor | None = None,
    local_size: int | None = None,
    **others: Any,  # noqa: ANN401, ARG001 - what other mask functions take: dtype, device, config and the like
) -> Seen:
    """Describe the mask that a model builds, as `AttentionMaskInterface` calls it.

    Raises CannotError on a mask that is neither causal, nor a causal window, nor all of the keys that exist.
    """
    if not isinstance(q_offset, int) or kv_offset + kv_length != q_offset + q_length:
        raise CannotError("a static cache has room for keys that do not exist yet; generate with the default, a dynamic one")
    keys = None if attention_mask is None else attention_mask[:, kv_offset : kv_offset + kv_length].bool()
    if keys is not None and keys.shape != (batch_size, kv_length):
        raise CannotError(f"the attention mask is {list(attention_mask.shape)}; it must be [{batch_size}, {kv_length}]")  # type: ignore[union-attr]
    causal = mask_function is causal_mask_function
    if local_size == 0:
        # Qwen2-MoE builds this one beside the others, for layers that it does not have
        return Seen(causal=True, keys=keys, window=0)
    if local_size is None and (causal or mask_function is bidirectional_mask_function):
        return Seen(causal=causal, keys=keys, window=None)
    if local_size is not None:
        at, there = q_offset + torch.arange(q_length), range(kv_offset, kv_offset + kv_length)
        if _is_window(mask_function, batch_size, at, there, local_size):
            return Seen(causal=True, keys=keys, window=local_size, dropped=kv_offset)
    kinds = "sequences packed into one row, chunks, blocks of an image or a mask of one's own"
    raise CannotError(f"this mask is neither causal nor a causal window ({kinds}), which no method here takes")


def _is_window(mask_function: Callable[..., Any], rows: int, at: Tensor, keys: range, window: int) -> bool:
    """Say whether each query of each row sees itself and the first key of its window, but neither the key after nor before.

    Of keys that there are; the first one in the window is of another sequence for some query wherever several are packed.
    """
    first = (at + 1 - window).clamp(min=keys.start)
    for there, sees in ((at, True), (first, True), (at + 1, False), (at - window, False)):
        exists = (there >= keys.start) & (there < keys.stop)
        row = torch.arange(rows).repeat_interleave(int(exists.sum()))
        q, k = at[exists].repeat(rows), there[exists].repeat(rows)
        found = torch.as_tensor(mask_function(row, torch.zeros_like(row), q, k))
        if bool((found.expand(row.shape) != sees).any()):
            return False
    return True
