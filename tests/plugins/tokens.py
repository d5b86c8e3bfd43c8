"""Attentions that decode: rightly, with room for few rows, and wrongly."""

from typing import Any

import torch
from plain import Plain
from torch import Tensor

Keys = tuple[Tensor, Tensor]


class Cached(Plain):
    """Keeps all keys and values."""

    decodes = True

    def prefill(self, q: Tensor, k: Tensor, v: Tensor, *, capacity: int) -> tuple[Tensor, Any]:
        return Plain.forward(self, q, k, v), (k, v)

    def step(self, q: Tensor, k: Tensor, v: Tensor, *, state: Keys) -> tuple[Tensor, Any]:
        k, v = (torch.cat(pair, dim=2) for pair in zip(state, (k, v), strict=True))
        o: Tensor = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v
        return o, (k, v)


class Roomy(Cached):
    """Has room for six rows."""

    def step(self, q: Tensor, k: Tensor, v: Tensor, *, state: Keys) -> tuple[Tensor, Any]:
        if len(q) > 6:
            raise MemoryError("there are six rows")
        return super().step(q, k, v, state=state)


class Forgetful(Cached):
    """Its steps see their own token only."""

    def step(self, q: Tensor, k: Tensor, v: Tensor, *, state: Keys) -> tuple[Tensor, Any]:
        return super().step(q, k, v, state=(k[:, :, :0], v[:, :, :0]))
