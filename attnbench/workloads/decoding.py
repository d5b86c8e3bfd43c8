"""Decoding: one token or a few at context N, N tokens from an empty state, or a prompt at once.

The state at context N is made from one drawn sequence and repeated for each row of the batch: the cost depends on the size of a
state and not on its numbers, and so the inputs of a long prompt never take memory beside a large batch of states.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor

from attnbench.api import Attention, State, each_once, each_tensor, tensors_of
from attnbench.schema.cell import Cell, Workload
from attnbench.workloads.inputs import draw_inputs
from attnbench.workloads.setting import Inputs, Setting, build, generator, keywords_of, overwrite

_POOL = 64
"""The number of different tokens of a sequence; a longer sequence repeats them."""


@dataclass
class Step(Setting):
    """A call decodes one token, or attends a few at once, `inputs`, after all tokens of `state`.

    Every call is given the same state, so the context does not grow. A method that sums in place adds the token again each
    time, which changes the numbers but not the cost.
    """

    state: State = None
    alone: State = None
    """The state of the one sequence that `state` was made from."""
    seed: int = 0

    def forward(self) -> Tensor:
        """Return the output of the new tokens."""
        verifies = self.cell.workload is Workload.VERIFY
        attend: Callable[..., tuple[Tensor, State]] = self.method.extend if verifies else self.method.step
        return attend(*self.inputs, state=self.state)[0]

    def add_sets(self, count: int) -> None:
        """Draw other tokens at the same context."""
        for number in range(len(self.sets), count):
            source = generator(self.cell, self.seed + 3 * number)
            self.sets.append(_tokens(type(self.method), self.cell, source, self.cell.first_token))

    def refill(self, seed: int) -> None:
        """Draw other tokens, and restore the state as it was before any call."""
        overwrite(self.inputs, _tokens(type(self.method), self.cell, generator(self.cell, seed), self.cell.first_token))
        for kept, one in zip(tensors_of(self.state), tensors_of(self.alone), strict=True):
            kept.data.copy_(one if one.shape[0] == 1 else one.repeat(self.cell.problem.B, *(1 for _ in one.shape[1:])))

    def sample(self, b: int) -> tuple[Inputs, int]:
        """Return the prompt, drawn again, and the new tokens."""
        prompt = _prompt(type(self.method), self.cell, generator(self.cell, self.seed))
        joined = {id(x): torch.cat([y, x[b : b + 1]], dim=2) for x, y in zip(self.inputs, prompt, strict=True)}
        return tuple(joined[id(x)] for x in self.inputs), 0

    def state_bytes(self) -> int:
        """Return the bytes of the state of all N tokens."""
        return self.method.state_bytes(self.state)


@dataclass
class Prompt(Setting):
    """A call attends all tokens and makes the state after them, which has room for no more."""

    def forward(self) -> Tensor:
        """Return the output of all tokens."""
        return self.method.prefill(*self.inputs, capacity=self.cell.problem.N)[0]

    def state_bytes(self) -> int:
        """Return the bytes of the state of all N tokens."""
        return self.method.state_bytes(self.method.prefill(*self.inputs, capacity=self.cell.problem.N)[1])


@dataclass
class Sequence(Setting):
    """A call decodes N tokens, one after the other, from an empty state; `inputs` are the first of them."""

    pool: list[Inputs] = field(default_factory=list)

    def begin(self) -> tuple[Tensor, State]:
        """Attend no token; return the empty output and the state with room for all N tokens."""
        return self.method.prefill(*cut(self.inputs, 0), capacity=self.cell.problem.N)

    def first_token(self) -> Tensor:
        """Return the output of the first token alone."""
        return self.method.step(*self.pool[0], state=self.begin()[1])[0]

    def forward(self) -> Tensor:
        """Return the output of the last token."""
        o, state = self.begin()
        for t in range(self.cell.problem.N):
            o, state = self.method.step(*self.pool[t % len(self.pool)], state=state)
        return o

    def refill(self, seed: int) -> None:
        """Draw other tokens for the pool."""
        source = generator(self.cell, seed)
        for t, token in enumerate(self.pool):
            overwrite(token, _tokens(type(self.method), self.cell, source, t))

    def sample(self, b: int) -> tuple[Inputs, int]:
        """Return all tokens of the sample, in the order in which a call takes them."""
        N = self.cell.problem.N
        joined = {
            id(x): torch.cat([self.pool[t % len(self.pool)][i][b : b + 1] for t in range(N)], dim=2)
            for i, x in enumerate(self.inputs)
        }
        return tuple(joined[id(x)] for x in self.inputs), 0

    def state_bytes(self) -> int:
        """Return the bytes of an empty state with room for all N tokens."""
        return self.method.state_bytes(self.begin()[1])


def last_tokens(cell: Cell, seed: int) -> Step:
    """Prepare the last tokens of N, of which one is decoded or some are verified. Raises what the method raises."""
    method, source, p = build(cell, seed), generator(cell, seed), cell.problem
    state = method.state_after(*_prompt(type(method), cell, source), capacity=p.N)
    new = _tokens(type(method), cell, source, cell.first_token)
    return Step(cell, method, new, state=repeated(state, p.B), alone=state, seed=seed)


def prompt(cell: Cell, seed: int) -> Prompt:
    """Prepare a prompt of N tokens. Raises what the method raises."""
    method = build(cell, seed)
    return Prompt(cell, method, draw_inputs(type(method), cell, generator(cell, seed)))


def sequence(cell: Cell, seed: int) -> Sequence:
    """Prepare N tokens from an empty state. Raises what the method raises."""
    method, p = build(cell, seed), cell.problem
    source = generator(cell, seed)
    pool = [_tokens(type(method), cell, source, t) for t in range(min(p.N, _POOL))]
    return Sequence(cell, method, pool[0], pool=pool)


def _prompt(method: type[Attention], cell: Cell, source: torch.Generator) -> Inputs:
    """Draw all tokens before the new ones, for one sample."""
    return cut(draw_inputs(method, cell.reshaped(B=1), source), cell.first_token)


def _tokens(method: type[Attention], cell: Cell, source: torch.Generator, first: int) -> Inputs:
    """Draw one token, or the few that are verified, for every sample."""
    return draw_inputs(method, cell, source, tokens=range(first, first + cell.new_tokens))


def decoded(method: Attention, inputs: Inputs, start: int, choices: Tensor | None) -> Iterator[tuple[Inputs, Tensor]]:
    """Attend the tokens before `start` by `prefill` and all others by `step`; give the inputs and the output of each call.

    `choices` are those of all N tokens, [B, H, N, ·]; without them the method makes its own.
    """
    N = inputs[-1].shape[2]
    attend: Callable[..., tuple[Tensor, State]] = partial(method.prefill, capacity=N)
    for first, stop in pairwise((0, *range(start, N + 1))):
        given = cut(inputs, stop, first)
        o, state = attend(*given, **keywords_of(None if choices is None else choices[:, :, first:stop]))
        # a check refuses what no time and no memory could be measured of
        tensors_of(state)
        attend = partial(method.step, state=state)
        yield given, o


def cut(inputs: Inputs, stop: int, start: int = 0) -> Inputs:
    """Return tokens start … stop of [B, H, N, ·] inputs, as views."""
    return each_once(inputs, lambda x: x[:, :, start:stop])


def repeated(state: State, B: int) -> State:
    """Repeat the state of one sequence B times, in new memory with the layout of the old, the batch outermost."""

    def many_of(one: Tensor) -> Tensor:
        # heads may be folded into the batch, or there may be no number at all
        if one.shape[0] != 1 or one.numel() == 0:
            return one.repeat(B, *(1 for _ in one.shape[1:]))
        # each row gets the strides of the one, with its gaps and overlaps
        extent = 1 + sum((size - 1) * stride for size, stride in zip(one.shape[1:], one.stride()[1:], strict=True))
        many = one.new_empty(B, extent)
        many.copy_(one.as_strided((1, extent), (extent, 1)))
        return many.as_strided((B, *one.shape[1:]), (extent, *one.stride()[1:]))

    return each_tensor(state, many_of)
