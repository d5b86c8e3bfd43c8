"""Decoding: one token at context N, or N tokens from nothing.

The state at context N is that of one drawn sequence, repeated for each row of the batch: it is a state's size and not its
numbers that costs, and so the inputs of a long prompt never stand beside a large batch of states.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass, replace

import torch
from torch import Tensor

from attnbench.api import Attention, State, tensors_of
from attnbench.schema.cell import Cell
from attnbench.workloads.inputs import draw_inputs
from attnbench.workloads.setting import Inputs, Setting, build, generator, overwrite

_POOL = 64
"""Different tokens that a sequence is made of; a longer one takes them again."""


@dataclass
class Step(Setting):
    """`inputs` are one token, `state` all before it.

    Every call is given that state, so the context does not grow. A method that sums in place adds the token once more each
    time, which changes numbers and no cost.
    """

    state: State = None
    alone: State = None
    """The same of the one sequence that it was made from."""
    seed: int = 0

    def forward(self) -> Tensor:
        """The output of the one token."""
        o, _ = step(self.method, self.inputs, self.state)
        return o

    def add_sets(self, count: int) -> None:
        """Other tokens at the same context."""
        for number in range(len(self.sets), count):
            self.sets.append(_token(type(self.method), self.cell, generator(self.cell, self.seed + 3 * number)))

    def refill(self, seed: int) -> None:
        """Another token, and the state as it was before any call."""
        fresh = _token(type(self.method), self.cell, generator(self.cell, seed))
        overwrite({id(x): y for x, y in zip(self.inputs, fresh, strict=True)}, self.inputs)
        for kept, one in zip(tensors_of(self.state), tensors_of(self.alone), strict=True):
            kept.data.copy_(one if one.shape[0] == 1 else one.repeat(self.cell.problem.B, *(1 for _ in one.shape[1:])))

    @property
    def first_row(self) -> int:
        """The last token."""
        return self.cell.problem.N - 1

    def sample(self, b: int) -> tuple[Inputs, int]:
        """The prompt, drawn once more, and the token."""
        method, cell, N = type(self.method), self.cell, self.cell.problem.N
        prompt = cut(draw_inputs(method, _prompt_of(cell), generator(cell, self.seed)), N - 1)
        joined = {id(x): torch.cat([y, x[b : b + 1]], dim=2) for x, y in zip(self.inputs, prompt, strict=True)}
        return tuple(joined[id(x)] for x in self.inputs), 0

    def state_bytes(self) -> int:
        """Of all N tokens."""
        return self.method.state_bytes(self.state)


@dataclass
class Sequence(Setting):
    """A call decodes N tokens, one after the other, from an empty state; `inputs` are the first of them."""

    pool: list[Inputs] = field(default_factory=list)

    def first_token(self) -> Tensor:
        """The output of the first token alone."""
        _, state = prefill(self.method, cut(self.inputs, 0), self.cell.problem.N)
        return step(self.method, self.pool[0], state)[0]

    def forward(self) -> Tensor:
        """The output of the last token."""
        o, state = prefill(self.method, cut(self.inputs, 0), self.cell.problem.N)
        for t in range(self.cell.problem.N):
            o, state = step(self.method, self.pool[t % len(self.pool)], state)
        return o

    def add_sets(self, count: int) -> None:
        """None: a call takes many tokens."""

    def refill(self, seed: int) -> None:
        """Other tokens in the pool."""
        source = generator(self.cell, seed)
        for token in self.pool:
            fresh = _token(type(self.method), self.cell, source)
            overwrite({id(x): y for x, y in zip(token, fresh, strict=True)}, token)

    @property
    def first_row(self) -> int:
        """The last token."""
        return self.cell.problem.N - 1

    def sample(self, b: int) -> tuple[Inputs, int]:
        """All tokens, as the pool gives them."""
        N = self.cell.problem.N
        joined = {
            id(x): torch.cat([self.pool[t % len(self.pool)][i][b : b + 1] for t in range(N)], dim=2)
            for i, x in enumerate(self.inputs)
        }
        return tuple(joined[id(x)] for x in self.inputs), 0

    def state_bytes(self) -> int:
        """Of an empty state with room for all N tokens."""
        return self.method.state_bytes(prefill(self.method, cut(self.inputs, 0), self.cell.problem.N)[1])


def one_step(cell: Cell, seed: int) -> Step:
    """The N-th token, N - 1 before it. Raises what the method raises."""
    method, source, p = build(cell, seed), generator(cell, seed), cell.problem
    prompt = draw_inputs(type(method), _prompt_of(cell), source)
    _, state = prefill(method, cut(prompt, p.N - 1), p.N)
    del prompt
    return Step(cell, method, _token(type(method), cell, source), state=repeated(state, p.B), alone=state, seed=seed)


def sequence(cell: Cell, seed: int) -> Sequence:
    """N tokens from nothing. Raises what the method raises."""
    method, p = build(cell, seed), cell.problem
    source = generator(cell, seed)
    pool = [_token(type(method), cell, source) for _ in range(min(p.N, _POOL))]
    return Sequence(cell, method, pool[0], pool=pool)


def _prompt_of(cell: Cell) -> Cell:
    """All tokens before the last, of one sample; a single one where there is none before."""
    return _of(cell, B=1, N=max(1, cell.problem.N - 1))


def _token(method: type[Attention], cell: Cell, source: torch.Generator) -> Inputs:
    """One token of every sample."""
    return draw_inputs(method, _of(cell, N=1), source)


def _of(cell: Cell, **shape: int) -> Cell:
    """The cell with another batch or length."""
    return cell.model_copy(update={"problem": cell.problem.model_copy(update=shape)})


def prefill(method: Attention, inputs: Inputs, capacity: int, choices: Tensor | None = None) -> tuple[Tensor, State]:
    """The method's own, with however many inputs it has; without choices it makes its own."""
    call: Callable[..., tuple[Tensor, State]] = method.prefill
    return call(*inputs, capacity=capacity, **_given(choices))


def step(method: Attention, token: Inputs, state: State, choices: Tensor | None = None) -> tuple[Tensor, State]:
    """The method's own, with however many inputs it has; without choices it makes its own."""
    call: Callable[..., tuple[Tensor, State]] = method.step
    return call(*token, state=state, **_given(choices))


def share(choices: Tensor | None, stop: int, start: int = 0) -> Tensor | None:
    """The choices of tokens start … stop of [B, H, N, ·], as a view; none of none."""
    return None if choices is None else choices[:, :, start:stop]


def _given(choices: Tensor | None) -> dict[str, Tensor]:
    """A method that chooses nothing need not know the keyword."""
    return {} if choices is None else {"choices": choices}


def cut(inputs: Inputs, stop: int, start: int = 0) -> tuple[Tensor, ...]:
    """Tokens start … stop of [B, H, N, ·] inputs, as views; a tensor given twice stays one tensor."""
    parts = {id(x): x[:, :, start:stop] for x in inputs}
    return tuple(parts[id(x)] for x in inputs)


def repeated(state: State, B: int) -> State:
    """The state of one sequence, B times: new memory in the layout of the old, the batch outermost."""
    if isinstance(state, Tensor):
        return _rows(state, B)
    if is_dataclass(state) and not isinstance(state, type):
        return replace(state, **{f.name: repeated(getattr(state, f.name), B) for f in fields(state)})
    if not isinstance(state, tuple | list):
        return state
    # a named tuple takes its fields one by one
    make = getattr(type(state), "_make", type(state))
    return make(repeated(part, B) for part in state)


def _rows(x: Tensor, B: int) -> Tensor:
    """[1, ...] -> [B, ...], each row with the strides of the one, gaps and overlaps included."""
    # heads folded into the batch, or nothing at all
    if x.shape[0] != 1 or x.numel() == 0:
        return x.repeat(B, *(1 for _ in x.shape[1:]))
    extent = 1 + sum((size - 1) * stride for size, stride in zip(x.shape[1:], x.stride()[1:], strict=True))
    many = x.new_empty(B, extent)
    many.copy_(x.as_strided((1, extent), (extent, 1)))
    return many.as_strided((B, *x.shape[1:]), (extent, *x.stride()[1:]))
