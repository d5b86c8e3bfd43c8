"""Attentions that are right, or wrong in exactly one way, for the tests of the workloads."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attnbench.api import Attention, Causality, Cell, Cost, Layout, Problem, Scalar, Tier, Workload, dense_flops, draw, io_bytes

NOTED: list[Any] = []
"""What some of them note of their calls, in order."""


@dataclass
class Cache:
    """Keys [b, K, capacity, D] and values [b, K, capacity, M], of which the first n are filled."""

    k: Tensor
    v: Tensor
    n: int


class Right(Attention):
    """Softmax attention, written out; causal where the problem is; decodes by a cache."""

    paper = "a fixture of the tests"
    decodes = True

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        cls(problem, **params)
        flops, moved = dense_flops(problem), io_bytes(problem, workload)
        return Cost(nominal_flops=flops, exact_flops=flops, executed_flops=flops, traffic_bytes=moved)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return self.weights(q, k) @ self.spread(v)

    def reference(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return Right.forward(self, q, k, v)

    def prefill(self, q: Tensor, k: Tensor, v: Tensor, *, capacity: int) -> tuple[Tensor, Any]:
        b, kv_heads, n, _ = k.shape
        cache = Cache(k.new_zeros(b, kv_heads, capacity, k.shape[3]), v.new_zeros(b, kv_heads, capacity, v.shape[3]), n)
        cache.k[:, :, :n], cache.v[:, :, :n] = k, v
        return Right.forward(self, q, k, v), cache

    def step(self, q: Tensor, k: Tensor, v: Tensor, *, state: Any) -> tuple[Tensor, Any]:
        n = state.n + 1
        state.k[:, :, n - 1 : n], state.v[:, :, n - 1 : n] = k, v
        return self.attend(q, state.k[:, :, :n], state.v[:, :, :n]), Cache(state.k, state.v, n)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        o: Tensor = (q @ self.spread(k).mT / q.shape[-1] ** 0.5).softmax(-1) @ self.spread(v)
        return o

    def spread(self, x: Tensor) -> Tensor:
        heads = self.problem.H // x.shape[1]
        return x.repeat_interleave(heads, dim=1)

    def later(self, scores: Tensor) -> Tensor:
        return torch.ones_like(scores, dtype=torch.bool).triu(1)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        scores: Tensor = q @ self.spread(k).mT / q.shape[-1] ** 0.5
        return scores.masked_fill(self.later(scores), -torch.inf) if self.problem.causal else scores

    def weights(self, q: Tensor, k: Tensor) -> Tensor:
        return self.scores(q, k).softmax(-1)


def gives(change: Callable[..., Any]) -> type[Right]:
    """An attention that gives what `change` makes of the right output and of q, k and v."""

    class Spoilt(Right):
        def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Any:
            return change(super().forward(q, k, v), q, k, v)

    return Spoilt


def scores_times(factor: Callable[[int], float]) -> type[Right]:
    """An attention whose scores are so many times as large, by the width of a head."""

    class Scaled(Right):
        def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return super().forward(q * factor(q.shape[-1]), k, v)

    return Scaled


def steps(change: Callable[[Tensor], Tensor]) -> type[Right]:
    """An attention whose steps give what `change` makes of their output."""

    class Steps(Right):
        def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return change(super().attend(q, k, v))

    return Steps


def as_if(*, causal: bool) -> type[Right]:
    """An attention whose forward is that of a problem with such a mask."""

    class AsIf(Right):
        def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return Right(self.problem.model_copy(update={"causal": causal})).forward(q, k, v)

    return AsIf


def nothing(x: Tensor) -> Tensor:
    """Zero, whose gradient is a hundredth."""
    return 0.01 * (x.sum() - x.sum().detach())


SHARE = 1e-5
"""By which outputs are off that are wrong by rounding alone."""


def off(o: Tensor, share: float | Tensor = SHARE) -> Tensor:
    """Every number by that share of itself, in value and in gradient."""
    return o + o * share


def row(o: Tensor) -> Tensor:
    """The number of each row, [N, 1]."""
    return torch.arange(o.shape[2])[:, None]


WrongValues = gives(lambda o, *_: o * 1.01)
OneNaN = gives(lambda o, *_: o.masked_fill(row(o) == 5, torch.nan))
WrongShape = gives(lambda o, *_: o[..., :-1])
WrongDtype = gives(lambda o, *_: o.to(torch.float16))
NoTensor = gives(lambda o, *_: (o, None))
TwiceAsMuch = gives(lambda o, *_: o * 2)
WrongGradient = gives(lambda o, q, k, v: o + nothing(k))
AllGradientsWrong = gives(lambda o, q, k, v: o + nothing(q + k + v))
NoiseOnTop = gives(lambda o, q, k, v: o + 0.1 * v.flip(2))
Unscaled = scores_times(lambda D: D**0.5)
ScaledTwice = scores_times(lambda D: D**-0.5)
# exp2 of scores that were meant for exp
ToThePowerOfTwo = scores_times(lambda D: math.log(2))
WithoutItsMask = as_if(causal=False)
AlwaysMasked = as_if(causal=True)
NarrowSteps = steps(lambda o: o[..., :-1])
# off by rounding alone: all rows, row t by t / N of it, steps, a sample in a batch
Rounds = gives(lambda o, *_: off(o))
Drifts = gives(lambda o, *_: off(o, SHARE * row(o) / o.shape[2]))
StepsApart = steps(off)
DependsOnTheBatch = gives(lambda o, *_: off(o) if len(o) > 1 else o)


class NaNLikeItsReference(Right):
    """Both overflow in half precision; only the wide reference does not."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return v * 60000 * 4 / 60000 / 4

    reference = forward


class HoldsWhatItsReferenceCannot(NaNLikeItsReference):
    """Half precision holds the output, but not the steps of the definition."""

    factor = 1.0

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return v * self.factor


class SomethingForNothing(Right):
    """Its definition is zero everywhere, which leaves no room for any error."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return self.reference(q, k, v) + 1

    def reference(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (q.sum() + k.sum()) * 0 * v


class LeaksTheFuture(Right):
    """Its own definition is not causal, whatever the problem says."""

    def later(self, scores: Tensor) -> Tensor:
        return torch.zeros_like(scores, dtype=torch.bool)


class LeaksKeys(Right):
    """Normalises over all keys, and sums over earlier values only."""

    causality = "full"  # type: ignore[assignment] # the word in place of the constant

    def weights(self, q: Tensor, k: Tensor) -> Tensor:
        weights: Tensor = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        return weights.tril()


class LeaksKeysAndSaysSo(LeaksKeys):
    causality = Causality.VALUES_ONLY


class LeaksValuesAsWell(LeaksTheFuture):
    causality = Causality.VALUES_ONLY


class Sloppy(Right):
    """Rounds its weights to four bits of fraction."""

    def weights(self, q: Tensor, k: Tensor) -> Tensor:
        exact = super().weights(q, k)
        mantissa, exponent = torch.frexp(exact)
        return exact + (torch.ldexp((mantissa * 16).round() / 16, exponent) - exact).detach()

    def reference(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return Right(self.problem).forward(q, k, v)


class SharedQK(Right):
    """Takes one tensor as query and key."""

    @classmethod
    def inputs(cls, problem: Problem, generator: torch.Generator) -> tuple[Tensor, ...]:
        qk = draw(problem, problem.H, problem.D, generator, Layout.BHND)
        return qk, qk, draw(problem, problem.H, problem.M, generator, Layout.BHND)


class Projects(Right):
    """Has a parameter, drawn at random, that scales the values."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.scale = nn.Parameter(torch.randn(problem.M))

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return super().forward(q, k, v * self.scale)

    def reference(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return self.forward(q, k, v)


class ProjectsWithoutLearning(Projects):
    """Its parameter gets the gradient of another function."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return super().forward(q, k, v) + 0.1 * (self.scale - self.scale.detach())

    def reference(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return super().forward(q, k, v)


class Watches(Right):
    """Notes of each call whether gradients are taken, and tells how many there were."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        o = super().forward(q, k, v)
        NOTED.append(o.requires_grad)
        return o

    @contextmanager
    def observe(self) -> Iterator[dict[str, Scalar]]:
        before = len(NOTED)
        facts: dict[str, Scalar] = {}
        yield facts
        facts["backend"] = f"written out, {len(NOTED) - before} call"


class Particular(Right):
    """Allows multiples of `chunk` from 200 on, and a backward only above 300."""

    requires = ("numpy>=1.0", "surely-not-installed>=2")

    def __init__(self, problem: Problem, chunk: int = 4) -> None:
        super().__init__(problem)
        if chunk < 1:
            raise ValueError(f"chunk={chunk} must be at least 1")

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        if cell.problem.N < 200:
            return "too short"
        if cell.problem.D > 64:
            return "heads are too wide"
        backward = cell.workload is Workload.FORWARD_BACKWARD
        return "no backward for short ones" if backward and cell.problem.N < 300 else None


class Stumbles(Right):
    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        raise RuntimeError("no kernel for this")


class StandsStill(Right):
    """Each step overwrites the token of the one before."""

    def step(self, q: Tensor, k: Tensor, v: Tensor, *, state: Any) -> tuple[Tensor, Any]:
        o, _ = super().step(q, k, v, state=state)
        return o, state


class LeaksInItsPrompt(Right):
    """Tokens of the prompt see later ones."""

    def prefill(self, q: Tensor, k: Tensor, v: Tensor, *, capacity: int) -> tuple[Tensor, Any]:
        _, state = super().prefill(q, k, v, capacity=capacity)
        return self.attend(q, k, v), state


class KeepsADict(Right):
    def prefill(self, q: Tensor, k: Tensor, v: Tensor, *, capacity: int) -> tuple[Tensor, Any]:
        o, state = super().prefill(q, k, v, capacity=capacity)
        return o, vars(state)


class ShortPrompts(Right):
    def prefill(self, q: Tensor, k: Tensor, v: Tensor, *, capacity: int) -> tuple[Tensor, Any]:
        o, state = super().prefill(q, k, v, capacity=capacity)
        return o[:, :, 1:], state


class Hides(Right):
    """Takes a key mask, and notes those that it was given; does not decode."""

    masks = True
    decodes = False

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *, key_mask: Tensor | None = None) -> Tensor:
        NOTED.append(key_mask)
        return self.within(q, k, key_mask) @ v

    def reference(self, q: Tensor, k: Tensor, v: Tensor, *, key_mask: Tensor | None = None) -> Tensor:
        return Hides.within(self, q, k, key_mask) @ v

    def within(self, q: Tensor, k: Tensor, key_mask: Tensor | None) -> Tensor:
        scores = self.scores(q, k)
        return (scores if key_mask is None else scores.masked_fill(~key_mask[:, None, None, :], -torch.inf)).softmax(-1)


class SeesThePadding(Hides):
    """Takes a key mask and does not look at it."""

    def within(self, q: Tensor, k: Tensor, key_mask: Tensor | None) -> Tensor:
        return super().within(q, k, None)


class Points(Right):
    """Each token takes the value of one token up to it, which only `choose` may draw; decodes; notes who was asked."""

    def choose(self, *inputs: Tensor) -> Tensor | None:
        B, H, N, _ = inputs[0].shape
        NOTED.append("choose")
        return (torch.rand(B, H, N, 1) * torch.arange(1, N + 1)[:, None]).long()

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *, choices: Tensor | None = None) -> Tensor:
        return self.taken("forward", self.choose(q, k, v) if choices is None else choices, q, k, v)

    def reference(self, q: Tensor, k: Tensor, v: Tensor, *, choices: Tensor | None = None) -> Tensor:
        return self.taken("reference", choices, q, k, v)

    def taken(self, who: str, choices: Tensor | None, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        assert choices is not None, f"{who} got no choices"
        NOTED.append(who)
        return v.gather(2, choices.expand_as(v)) + 0 * q + 0 * k

    def prefill(self, q: Tensor, k: Tensor, v: Tensor, *, capacity: int, choices: Tensor | None = None) -> tuple[Tensor, Any]:
        _, cache = super().prefill(q, k, v, capacity=capacity)
        return self.taken("prefill", choices, q, k, v), cache

    def step(self, q: Tensor, k: Tensor, v: Tensor, *, state: Any, choices: Tensor | None = None) -> tuple[Tensor, Any]:
        assert choices is not None
        _, cache = super().step(q, k, v, state=state)
        return cache.v.gather(2, self.target(choices).expand_as(v)), cache

    def target(self, choices: Tensor) -> Tensor:
        return choices


class PointsElsewhere(Points):
    """Its steps do not take the token that was chosen."""

    def target(self, choices: Tensor) -> Tensor:
        return torch.zeros_like(choices)


class ChoosesByTheFuture(Points):
    """The token that each one takes follows from all keys, later ones too."""

    def choose(self, *inputs: Tensor) -> Tensor | None:
        followed = (inputs[1].sum((2, 3), keepdim=True) * 1000).long().abs()
        return followed % torch.arange(1, inputs[1].shape[2] + 1)[:, None]


class DependsOnTheCall(Right):
    """No call gives what the one before gave."""

    calls = 0

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.calls += 1
        return off(super().forward(q, k, v), SHARE * (self.calls % 2))


class NeverTheSame(Right):
    """It has no deterministic form."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if torch.are_deterministic_algorithms_enabled():
            raise RuntimeError("sum does not have a deterministic implementation, but you asked for one\nsecond line")
        return super().forward(q, k, v)


class ForwardOnly(Right):
    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        return "it has no backward" if cell.workload is Workload.FORWARD_BACKWARD else None


class Selects(Points):
    """Has rows by its choices."""

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor, choices: Tensor | None = None) -> Tensor:
        assert choices is not None
        return v[choices[at, 0]]


class SelectsCompiled(Selects):
    tier = Tier.COMPILED


class ChoosesNothing(Selects):
    """It could choose, and does not."""

    def choose(self, *inputs: Tensor) -> Tensor | None:
        return None


class AttendsToChoose(Selects):
    """It attends once to tell its choices."""

    def choose(self, *inputs: Tensor) -> Tensor | None:
        NOTED.append("forward")
        return super().choose(*inputs)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *, choices: Tensor | None = None) -> Tensor:
        return super().forward(q, k, v, choices=Selects.choose(self, q, k, v) if choices is None else choices)


class CannotChoose(Selects):
    def choose(self, *inputs: Tensor) -> Tensor | None:
        raise RuntimeError("out of memory for all choices\nsecond line")


class Tunes(Right):
    """Keeps what it found best for the shape of its first call, and has no memory for long ones; notes the shapes."""

    tunes = True

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        NOTED.append((*q.shape[:3], q.requires_grad))
        if q.shape[2] > 1000:
            raise MemoryError("no room")
        return super().forward(q, k, v)
