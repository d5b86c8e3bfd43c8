"""The right values of rows of an output, by a method's own definition in float64, at any length; and the choice of such rows.

B samples, H heads, N tokens, n rows, M width of an output row, C width of an input's.
"""

import copy
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from attnbench.api import Attention, each_once
from attnbench.workloads.setting import keywords_of

ROWS = 64
"""The number of rows of an output that are compared, if it has as many."""
_PLACES, _SAMPLES, _NEW = 8, 4, 4
_ROUNDINGS = 8
"""How often inputs are moved, so that a sum which cancels is not exact by luck in all of these."""
MOST_SCORES = 2**26
"""The most scores that a dense definition may have: half a gigabyte in float64, which is needed a few times."""
Part = tuple[int, int, int]
"""The numbers of an input, of a sample, and of a head of that input."""


@dataclass(frozen=True)
class Place:
    """Some tokens of one head of one sample, in rising order."""

    b: int
    h: int
    at: tuple[int, ...]


def places(B: int, H: int, N: int, span: int, source: random.Random, rows: int = ROWS) -> list[Place]:
    """Choose at least `rows` rows, or all: of the first and the last head and sample, and of random others.

    In each, these are the first token and the last, tokens beside a multiple of `span`, and random others.
    """
    by_chance = (divmod(number, H) for number in source.sample(range(B * H), min(B * H, _PLACES)))
    heads = list(dict.fromkeys([(0, 0), (B - 1, H - 1), *by_chance]))[:_PLACES]
    each = -(-rows // len(heads))
    # shuffled, because where there is time for only a few, no method may know for which
    source.shuffle(heads)
    return [Place(b, h, tokens(N, span, each, source)) for b, h in heads]


def tokens(N: int, span: int, count: int, source: random.Random, first: int = 0) -> tuple[int, ...]:
    """Choose `count` tokens from `first` on, or all of them."""
    if N - first <= count:
        return tuple(range(first, N))
    chosen = {first, N - 1}
    borders = [border for border in range(span, N, span) if border > first]
    for turn in itertools.count():
        if len(chosen) >= count:
            break
        # a token beside a border and a random one in turns; without a border, all are random
        near = source.choice(borders) + source.choice((-1, 0, 1)) if borders and turn % 2 else source.randrange(first, N)
        chosen.add(min(N - 1, max(first, near)))
    return tuple(sorted(chosen))


def last_tokens(B: int, H: int, N: int, source: random.Random, first: int) -> list[Place]:
    """Choose tokens from `first` on of 64 heads, or of all, in a few samples that include the first and the last."""
    samples = list(dict.fromkeys([0, B - 1, *source.sample(range(B), min(B, _SAMPLES))]))[:_SAMPLES]
    every = [Place(b, h, tokens(N, N, _NEW, source, first)) for b in samples for h in range(H)]
    return sorted(source.sample(every, min(len(every), ROWS)), key=lambda place: samples.index(place.b))


class NoTruthError(RuntimeError):
    """The definition cannot be evaluated at this size; the message says why."""


@dataclass
class Truth:
    """The definition of a method on these inputs, in float64, or with `wide=False` in the method's own dtype.

    With a number `moved`, each number of the inputs is moved by up to one unit in its last place, by chance.

    `choices` are those that the call made, or None. Where the method has no `rows`, its whole `reference` is evaluated, unless
    that has more than MOST_SCORES scores.
    """

    method: Attention
    inputs: tuple[Tensor, ...]
    choices: Tensor | None = None
    key_mask: Tensor | None = None
    wide: bool = True
    moved: int | None = None
    parts: dict[Part, Tensor] = field(default_factory=dict, init=False)
    """The parts of the inputs that were read, [N, C] each, to which gradients are taken."""
    _outputs: dict[int, Tensor] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.definition = copy.deepcopy(self.method).to(torch.float64) if self.wide else self.method

    def rounded(self) -> Iterator["Truth"]:
        """Give the definition as rounding changes it: in the method's own dtype, and on inputs that are moved, a few times.

        A sum that cancels, such as the one product of a first token, is exact by luck in any single one of these.
        """
        yield replace(self, wide=False)
        for number in range(_ROUNDINGS):
            yield replace(self, moved=number)

    def rows(self, place: Place) -> Tensor:
        """Return the right rows at a place, [n, M]. Raises NoTruthError, and whatever the definition raises."""
        choices, key_mask = self.choices, self.key_mask
        keywords = keywords_of(
            None if choices is None else choices[place.b, self._head(choices, place.h)],
            None if key_mask is None else key_mask[place.b],
        )
        own = [self._part(x, place.b, self._head(x, place.h)) for x in self.inputs]
        at = torch.tensor(place.at, device=own[0].device)
        definition: Callable[..., Tensor] = self.definition.rows
        try:
            return definition(place.h, at, *own, **keywords)
        except NotImplementedError:
            pass
        # the whole reference, on this sample alone where samples are independent
        B, H, N = self.inputs[0].shape[:3]
        samples = [place.b] if self.method.independent else list(range(B))
        if len(samples) * H * N * N > MOST_SCORES:
            raise NoTruthError(f"the method has no `rows`, and its reference is too large at N={N}")
        if samples[0] not in self._outputs:
            # put together from parts, to which gradients can be taken
            whole = each_once(
                self.inputs,
                lambda x: torch.stack([torch.stack([self._part(x, b, h) for h in range(x.shape[1])]) for b in samples]),
            )
            of_samples = (x if x is None else x[samples] for x in (choices, key_mask))
            definition = self.definition.reference
            self._outputs[samples[0]] = definition(*whole, **keywords_of(*of_samples))
        return self._outputs[samples[0]][samples.index(place.b), place.h, list(place.at)]

    def gradients(self, places: Sequence[Place], weights: Sequence[Tensor]) -> tuple[dict[Part, Tensor], list[Tensor]]:
        """Return the gradients of Σ weights ∘ rows, [n, M] each, to every part that was read and to every parameter.

        Raises as `rows` does.
        """
        with torch.enable_grad():
            total = torch.stack([(self.rows(place) * w).sum() for place, w in zip(places, weights, strict=True)]).sum()
        wanted = {part: x for part, x in self.parts.items() if x.requires_grad}
        parameters = list(self.definition.parameters())
        found = torch.autograd.grad(total, [*wanted.values(), *parameters], allow_unused=True, materialize_grads=True)
        return dict(zip(wanted, found, strict=False)), list(found[len(wanted) :])

    def _part(self, x: Tensor, b: int, h: int) -> Tensor:
        number = next(i for i, each in enumerate(self.inputs) if each is x)
        if (number, b, h) not in self.parts:
            own = x.detach()[b, h]
            if own.is_floating_point():
                unit, own = torch.finfo(own.dtype).eps, own.to(torch.float64 if self.wide else own.dtype, copy=True)
                if self.moved is not None:
                    generator = torch.Generator().manual_seed(hash((self.moved, number, b, h)))
                    by_chance = 2 * torch.rand(own.shape, generator=generator, dtype=own.dtype) - 1
                    own *= 1 + unit * by_chance.to(own.device)
                own.requires_grad_(x.requires_grad)
            self.parts[number, b, h] = own
        return self.parts[number, b, h]

    def _head(self, x: Tensor, h: int) -> int:
        """Return the head of an input that belongs to head h of q, which may have more heads than k and v."""
        return h * x.shape[1] // self.method.problem.H
