"""A layer of the model: attention, then a feed-forward part, each behind a norm and added to what comes in.

B sequences, n tokens, H heads, D width of a head's queries and keys, M of its values; W = H D is the model's width.
"""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnbench import registry
from attnbench.api import Attention, laid_out
from attnbench.schema.cell import Cell


@runtime_checkable
class Learns(Protocol):
    """An attention with state that training changes but no gradient reaches, such as a codebook.

    Both methods get the inputs of a forward, and the choices that it was made with.
    """

    def penalty(self, *inputs: Tensor, choices: Tensor | None) -> Tensor:
        """Return what is added to the loss: a number, with a gradient."""

    def learn(self, *inputs: Tensor, choices: Tensor | None) -> None:
        """Change the state, once an update, after the backward."""


EXACT = "softmax.sdpa"
"""What has its turn in a hybrid, whose other layers have the method of the cell."""


def attention_of(cell: Cell, layer: int, layers: int) -> Attention:
    """Build the method of a cell for one layer, counted from 0, whose number its constructor may ask for.

    In a hybrid the last of every `softmax_every` layers has softmax attention. Raises what the registry raises.
    """
    if cell.training and cell.training.softmax_every and (layer + 1) % cell.training.softmax_every == 0:
        name, params = EXACT, {}
    else:
        name, params = cell.method, cell.params
    asked = inspect.signature(registry.load(name)).parameters
    told = {name: value for name, value in (("layer", layer), ("layers", layers)) if name in asked}
    method = registry.build_for(cell.call.model_copy(update={"method": name, "params": {**told, **params}}))
    return method.to(device=cell.device, dtype=getattr(torch, cell.problem.dtype))


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put a model in evaluation mode, and back as it was, also where something raises."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


class Block(nn.Module):
    """One layer around one attention, which says by `projections` and `admit` what it takes."""

    def __init__(self, attention: Attention, feedforward: int) -> None:
        super().__init__()
        p = attention.problem
        width = p.H * p.D
        self.attention = attention
        self.projections = type(attention).projections(p)
        self.dtype: torch.dtype = getattr(torch, p.dtype)
        self.before_attention, self.before_feedforward = nn.LayerNorm(width), nn.LayerNorm(width)
        self.into = nn.Linear(width, sum(each.heads * each.width for each in self.projections))
        self.out = nn.Linear(p.H * p.M, width)
        self.up, self.down = nn.Linear(width, feedforward * width), nn.Linear(feedforward * width, width)
        self._seen: tuple[tuple[Tensor, ...], Tensor | None] | None = None

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output, [B, N, W] as the input, and what the attention adds to the loss: a number, mostly 0."""
        inputs = self.inputs(x)
        penalty = inputs[0].new_zeros((), dtype=torch.float32)
        if not (self.training and isinstance(self.attention, Learns)):
            return self.onwards(x, self.attend(inputs)), penalty
        with plainly(x):
            choices = self.attention.choose(*inputs)
            self._seen = tuple(each.detach() for each in inputs), choices
            o = self.attention(*inputs) if choices is None else self.attention(*inputs, choices=choices)
            penalty = penalty + self.attention.penalty(*inputs, choices=choices)
        return self.onwards(x, o), penalty

    def attend(self, inputs: tuple[Tensor, ...], attention: Attention | None = None) -> Tensor:
        """Call the attention, or another one in its place, in the dtype that its cell states."""
        with plainly(inputs[0]):
            o: Tensor = (self.attention if attention is None else attention)(*inputs)
        return o

    def raw(self, x: Tensor) -> list[Tensor]:
        """Return one tensor [B, heads, n, width] for each projection, dense in the attention's own layout."""
        sizes = [each.heads * each.width for each in self.projections]
        parts = self.into(self.before_attention(x)).to(self.dtype).split(sizes, dim=-1)
        by_head = (part.unflatten(-1, (e.heads, e.width)) for part, e in zip(parts, self.projections, strict=True))
        return [laid_out(x_BNHC.transpose(1, 2), self.attention.layout) for x_BNHC in by_head]

    def inputs(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return what the attention takes, for any n tokens: [B, n, W] -> [B, heads, n, ·] each."""
        raw = self.raw(x)
        with plainly(x):
            return self.attention.admit(self.attention.problem, *raw)

    def onwards(self, x: Tensor, o: Tensor) -> Tensor:
        """Add the attention's output, [B, H, n, M], and the feed-forward part to what came in, [B, n, W]."""
        x = x + self.out(o.transpose(1, 2).flatten(2))
        fed: Tensor = self.down(F.gelu(self.up(self.before_feedforward(x))))
        return x + fed

    def learn(self) -> None:
        """Update what no gradient reaches, by the last forward in training; most methods have nothing of the kind."""
        if self._seen is not None and isinstance(self.attention, Learns):
            inputs, choices = self._seen
            self.attention.learn(*inputs, choices=choices)
        self._seen = None


def plainly(x: Tensor) -> torch.autocast:
    """Turn mixed precision off: an attention is called in the dtype that its cell states."""
    return torch.autocast(x.device.type, enabled=False)
