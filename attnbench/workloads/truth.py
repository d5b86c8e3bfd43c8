"""What rows of an output have to be: a method's own definition, evaluated in float64 where it is asked for, at any length.

B samples, H heads, N tokens, n rows, M width of an output row, C width of an input's.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from attnbench.api import Attention
from attnbench.workloads.places import Place

MOST_SCORES = 2**26
"""Scores that a dense definition may have: half a gigabyte in float64, a few times over."""
Part = tuple[int, int, int]
"""Which input, which sample, which of the input's heads."""


class NoTruthError(RuntimeError):
    """The definition cannot be evaluated at this size; the message says why."""


@dataclass
class Truth:
    """The definition of a method on these inputs, in float64, or with `wide=False` in the method's own dtype.

    `choices` are those that the call made, or None. Where the method has no `rows`, its whole `reference` is evaluated if it
    has no more than MOST_SCORES scores; else NoTruthError.
    """

    method: Attention
    inputs: tuple[Tensor, ...]
    choices: Tensor | None = None
    key_mask: Tensor | None = None
    wide: bool = True
    parts: dict[Part, Tensor] = field(default_factory=dict, init=False)
    """What was read of the inputs, [N, C] each: the leaves of gradients."""
    _outputs: dict[int, Tensor] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.definition = copy.deepcopy(self.method).to(torch.float64) if self.wide else self.method

    def narrow(self) -> "Truth":
        """The same in the method's own dtype: what that alone does to the definition."""
        return Truth(self.method, self.inputs, self.choices, self.key_mask, wide=False)

    def rows(self, place: Place) -> Tensor:
        """[n, M] as they have to be. Raises NoTruthError, and whatever the definition raises."""
        keywords: dict[str, Any] = {}
        if self.key_mask is not None:
            keywords["key_mask"] = self.key_mask[place.b]
        if self.choices is not None:
            keywords["choices"] = self.choices[place.b, self._head(self.choices, place.h)]
        own = [self._part(x, place.b, self._head(x, place.h)) for x in self.inputs]
        at = torch.tensor(place.at, device=own[0].device)
        try:
            # inputs are as many as the method has
            o: Tensor = self.definition.rows(place.h, at, *own, **keywords)
        except NotImplementedError:
            return self._densely(place)
        return o

    def gradients(self, places: Sequence[Place], weights: Sequence[Tensor]) -> tuple[dict[Part, Tensor], list[Tensor]]:
        """Of Σ weights ∘ rows, [n, M] each: to every part that was read, and to every parameter. Raises as `rows`."""
        with torch.enable_grad():
            total = torch.stack([(self.rows(place) * w).sum() for place, w in zip(places, weights, strict=True)]).sum()
        wanted = {part: x for part, x in self.parts.items() if x.requires_grad}
        parameters = list(self.definition.parameters())
        found = torch.autograd.grad(total, [*wanted.values(), *parameters], allow_unused=True, materialize_grads=True)
        return dict(zip(wanted, found, strict=False)), list(found[len(wanted) :])

    def _densely(self, place: Place) -> Tensor:
        """By the whole reference, of this sample alone where samples are independent."""
        B, H, N = self.inputs[0].shape[:3]
        samples = [place.b] if self.method.independent else list(range(B))
        if len(samples) * H * N * N > MOST_SCORES:
            raise NoTruthError(f"the method has no `rows`, and its reference is too large at N={N}")
        if samples[0] not in self._outputs:
            whole = {id(x): self._samples(x, samples) for x in self.inputs}
            keywords: dict[str, Any] = {}
            if self.key_mask is not None:
                keywords["key_mask"] = self.key_mask[samples]
            if self.choices is not None:
                keywords["choices"] = self.choices[samples]
            self._outputs[samples[0]] = self.definition.reference(*(whole[id(x)] for x in self.inputs), **keywords)
        return self._outputs[samples[0]][samples.index(place.b), place.h, list(place.at)]

    def _samples(self, x: Tensor, samples: list[int]) -> Tensor:
        """An input of these samples, put together from its parts."""
        return torch.stack([torch.stack([self._part(x, b, h) for h in range(x.shape[1])]) for b in samples])

    def _part(self, x: Tensor, b: int, h: int) -> Tensor:
        number = next(i for i, each in enumerate(self.inputs) if each is x)
        if (number, b, h) not in self.parts:
            own = x.detach()[b, h]
            if own.is_floating_point():
                own = own.to(torch.float64 if self.wide else own.dtype, copy=True).requires_grad_(x.requires_grad)
            self.parts[number, b, h] = own
        return self.parts[number, b, h]

    def _head(self, x: Tensor, h: int) -> int:
        """Which of the heads of an input serves head h of q: those of k and v may be fewer."""
        return h * x.shape[1] // self.method.problem.H
