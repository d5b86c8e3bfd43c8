"""Readers: how a model reads one token after the other, and says what comes next.

Methods that do not decode token by token read the whole prefix again, by attentions that are built for shorter sequences.
B sequences, n tokens, W the model's width.
"""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import partial

import torch
from torch import Tensor, nn

from attnbench import registry
from attnbench.api import Attention, State
from attnbench.schema.cell import Cell
from attnbench.training.block import attention_of, plainly
from attnbench.training.transformer import Transformer

LENGTHS = 16
"""The number of lengths that attentions are built for. What is computed is longer than the prefix, by N / 32 on average."""
NOT_CAUSAL = "sequences are made token by token, which is causal; set causal: true"
STEP_BY_STEP, ANEW = "step by step", "whole prefix anew"


def lengths(N: int) -> list[int]:
    """Return the multiples of a sixteenth of N, rounded up; the last is N."""
    step = -(-N // LENGTHS)
    return [*range(step, N, step), N]


def attentions_by_length(model: Transformer, B: int) -> dict[int, list[Attention]]:
    """Build the attention of every layer for each length that the method takes, with the weights of the model.

    A length is left out where the method refuses it, where its weights would have other shapes, or where the method would be
    another function because of its length (by a stride of √N, say). Raises UnsupportedError where not even N is left.
    """
    cell = model.cell
    method, found = registry.load(cell.method), {}
    for n in lengths(cell.problem.N):
        shorter = cell.reshaped(N=n, B=B)
        if not method.refusal(shorter.call) and (layers := _layers(model, shorter)) is not None:
            found[n] = layers
    if cell.problem.N not in found:
        reason = method.refusal(cell.call) or f"it cannot be built anew for B={B}"
        raise registry.UnsupportedError(f"{cell.method} cannot make sequences: {reason}")
    return found


def _layers(model: Transformer, cell: Cell) -> list[Attention] | None:
    made = []
    for layer, block in enumerate(model.layers):
        try:
            attention = attention_of(cell, layer, len(model.layers))
            # the weights of the model themselves, not copies
            attention.load_state_dict(block.attention.state_dict(), strict=True, assign=True)
        except (RuntimeError, ValueError):
            return None
        if difference(attention, block.attention):
            return None
        made.append(attention.eval())
    return made


def difference(one: Attention, other: Attention) -> str | None:
    """Name a public attribute in which two attentions differ, beside their problems; None where there is none."""

    def options(module: nn.Module) -> dict[str, object]:
        left_out = {"problem", "training"}
        return {name: value for name, value in vars(module).items() if not name.startswith("_") and name not in left_out}

    for mine, theirs in zip(one.modules(), other.modules(), strict=True):
        first, second = options(mine), options(theirs)
        if type(mine) is not type(theirs) or first.keys() != second.keys():
            return type(mine).__name__
        for name, a in first.items():
            b = second[name]
            same = torch.equal(a, b) if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) else bool(a == b)
            if not same:
                # what a pattern or the like was made with is a parameter; the pattern is none
                parts = fields(a) if is_dataclass(a) and type(a) is type(b) else ()
                return next((f.name for f in parts if getattr(a, f.name) != getattr(b, f.name)), name)
    return None


class ByStep:
    """Reads up to N tokens of B sequences one at a time, where N is the model's, and keeps one state a layer."""

    way = STEP_BY_STEP

    def __init__(self, model: Transformer, B: int) -> None:
        self.model, self.B = model, B
        self.begin()

    def begin(self) -> None:
        """Forget the states."""
        self.stand([], 0)

    def stand(self, states: list[State], length: int) -> None:
        """Continue from these states, one a layer, after so many tokens."""
        self.states: list[State] = states
        self.length = length

    def read(self, tokens: Tensor) -> Tensor:
        """Read the first tokens, int64 [B, n], by `prefill`, or one more by `step`; return what is said last, [B, outputs]."""
        with self.model.precision:
            x, states = self.model.embed(tokens, self.length), []
            for layer, block in enumerate(self.model.layers):
                inputs = block.inputs(x)
                call: Callable[..., tuple[Tensor, State]]
                if self.states:
                    call = partial(block.attention.step, state=self.states[layer])
                else:
                    call = partial(block.attention.prefill, capacity=self.model.cell.problem.N)
                with plainly(x):
                    o, state = call(*inputs)
                x = block.onwards(x, o)
                states.append(state)
            self.states, self.length = states, self.length + tokens.shape[1]
            return self.model.say(x[:, -1:])[:, 0]

    def state_bytes(self) -> int:
        """Return the bytes that are kept between tokens: the method's own count, over all layers and sequences."""
        return sum(b.attention.state_bytes(s) for b, s in zip(self.model.layers, self.states, strict=True))


class Anew:
    """Reads the whole prefix again for each token, by attentions that were built for a length not much above.

    The tokens that fill the prefix up to that length mean nothing: causality hides them, as far as the method is causal.
    """

    way = ANEW

    def __init__(self, model: Transformer, B: int) -> None:
        self.model, self.B = model, B
        self.attentions = attentions_by_length(model, B)
        """The attentions of all layers, by the length that they were built for, from short to long."""
        self.begin()

    def begin(self) -> None:
        """Forget the tokens."""
        self.tokens = torch.empty(self.B, 0, dtype=torch.int64, device=self.model.cell.device)

    def read(self, tokens: Tensor) -> Tensor:
        """Send all tokens so far through all layers again."""
        self.tokens = torch.cat([self.tokens, tokens], dim=1)
        n = self.tokens.shape[1]
        length = next(each for each in self.attentions if each >= n)
        padded = torch.nn.functional.pad(self.tokens, (0, length - n))
        with self.model.precision:
            x = self.model.embed(padded)
            for block, attention in zip(self.model.layers, self.attentions[length], strict=True):
                x = block.onwards(x, block.attend(block.inputs(x), attention))
            return self.model.say(x[:, n - 1 : n])[:, 0]

    def state_bytes(self) -> int:
        """Count the token numbers, for nothing of the attention is kept."""
        return self.B * self.model.cell.problem.N * self.tokens.element_size()


Reader = ByStep | Anew


def reader_of(model: Transformer, B: int) -> Reader:
    """Return a reader that goes step by step if all layers decode and do not themselves attend the whole prefix each time.

    Raises ValueError where the problem is not causal, and UnsupportedError where the method cannot make sequences.
    """
    if not model.cell.problem.causal:
        raise ValueError(NOT_CAUSAL)
    attentions = [block.attention for block in model.layers]
    return ByStep(model, B) if all(x.decodes and not x.recomputes for x in attentions) else Anew(model, B)
