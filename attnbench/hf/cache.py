"""The layer of a model's cache that holds the state of a method in place of all keys and values.

B rows, n new tokens.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicLayer

from attnbench.api import State, each_tensor
from attnbench.hf.refusals import CannotError
from attnbench.hf.rows import Rows


class StateLayer(DynamicLayer):  # type: ignore[misc]
    """Counts tokens and keeps states; keys and values pass through to the method, and those of the base class stay empty."""

    is_croppable = False

    def __init__(self) -> None:
        super().__init__()
        self.count, self.batch = 0, 0
        self.held: tuple[tuple[Rows, State], ...] = ()
        """Rows, and the state after their tokens."""

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:  # noqa: ANN401
        """Count the new tokens, and return their keys and values alone: [B, K, n, ·]."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        self.count, self.batch = self.count + key_states.shape[2], key_states.shape[0]
        return key_states, value_states

    def get_seq_length(self) -> int:
        """Return the tokens so far."""
        return self.count

    def reset(self) -> None:
        """Forget all tokens."""
        self.count, self.held = 0, ()

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Let each row go on from the state of another, as a beam search asks."""
        self.batch_select_indices(beam_idx)

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeat each row."""
        self.batch_select_indices(torch.arange(self.batch).repeat_interleave(repeats))

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep these rows, int64 [b], in this order; one may be there several times."""
        chosen = []
        for rows, state in self.held:
            there = torch.arange(self.batch) if rows.at is None else rows.at.cpu()
            # where each row of the new batch is among these, if it is
            found = there[None] == indices.cpu()[:, None]
            at = found.any(1).nonzero().flatten()
            if len(at):
                within = found[at].int().argmax(1)
                kept = each_tensor(state, partial(_rows_of, rows=len(there), chosen=within))
                chosen.append((replace(rows, at=None if len(at) == len(indices) else at.to(indices.device)), kept))
        self.held, self.batch = tuple(chosen), len(indices)

    def crop(self, tokens_to_remove: int) -> None:
        """Take nothing back. Raises CannotError where tokens are to be taken back: a state does not say what they added."""
        if tokens_to_remove:
            raise CannotError("a state cannot be cropped: decode without an assistant model, or keep the model's own attention")


def _rows_of(x: Tensor, rows: int, chosen: Tensor) -> Tensor:
    """Choose rows of a state's tensor, whose first dimension is the batch, or the batch with heads folded into it."""
    if x.numel() == 0:
        return x
    kept: Tensor = x.unflatten(0, (rows, -1))[chosen.to(x.device)].flatten(0, 1)
    return kept
