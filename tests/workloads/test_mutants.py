"""A method with a mistake in it is incorrect, at the check and where it is timed, whatever the family and whatever the mistake.

Each is made from a shipped class, whose definition stays as it is.
"""

from collections.abc import Callable, Container, Iterable
from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench import registry
from attnbench.api import Attention, State
from attnbench.pytest_plugin.given import named
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import Job, Limits, Pass
from attnbench.schema.outcome import Failed, Measured, Outcome, Status
from attnbench.schema.problem import Problem
from attnbench.workloads.check import check, check_cells
from attnbench.workloads.timing import measure_time
from tests.workloads.conftest import measured

Forward = Callable[..., Tensor]
Spoil = Callable[[Attention, Forward, tuple[Tensor, ...], dict[str, Any]], object]


def mutant(base: type[Attention], spoil: Spoil) -> type[Attention]:
    """A shipped class whose forward goes through `spoil`; its definition stays as it is."""

    class Mutant(base):  # type: ignore[misc, valid-type]
        def forward(self, *inputs: Tensor, **keywords: Any) -> object:
            return spoil(self, super().forward, inputs, keywords)

    return Mutant


def of_output(change: Callable[[Tensor], object], beyond: int = 0) -> Spoil:
    """A mistake in what comes out, at lengths beyond this one."""

    def spoil(_: Attention, forward: Forward, inputs: tuple[Tensor, ...], keywords: dict[str, Any]) -> object:
        o = forward(*inputs, **keywords)
        return change(o) if o.shape[2] > beyond else o

    return spoil


def of_inputs(change: Callable[[Tensor], Tensor], which: int) -> Spoil:
    """A mistake in how one of the inputs is read."""

    def spoil(_: Attention, forward: Forward, inputs: tuple[Tensor, ...], keywords: dict[str, Any]) -> Tensor:
        return forward(*(change(x) if i == which else x for i, x in enumerate(inputs)), **keywords)

    return spoil


def of_gradient(change: Callable[[Tensor], Tensor], which: int) -> Spoil:
    """A mistake in the gradient of one of the inputs."""

    def spoilt(x: Tensor) -> Tensor:
        y = x.view_as(x)
        if y.requires_grad:
            y.register_hook(change)
        return y

    return of_inputs(spoilt, which)


def other(method: Attention, base: type[Attention], N: int, **params: Any) -> Attention:
    """What a mutant would be with other parameters, or at another length; it shares no weights."""
    made = base(method.problem.model_copy(update={"N": N}), **params)
    made.load_state_dict(method.state_dict(), strict=False)
    return made.to(next((x.dtype for x in method.state_dict().values() if x.is_floating_point()), torch.float32))


def in_pieces(base: type[Attention], piece: int, **params: Any) -> Spoil:
    """The state is dropped between pieces of so many tokens."""

    def spoil(method: Attention, _: Forward, inputs: tuple[Tensor, ...], __: dict[str, Any]) -> Tensor:
        N = method.problem.N
        parts = []
        for start in range(0, N, piece):
            stop = min(N, start + piece)
            cut = {id(x): x[:, :, start:stop] for x in inputs}
            parts.append(other(method, base, stop - start, **params)(*(cut[id(x)] for x in inputs)))
        return torch.cat(parts, dim=2)

    return spoil


def instead(base: type[Attention], **params: Any) -> Spoil:
    """Another method, or the same one with other parameters."""
    return lambda method, _, inputs, __: other(method, base, method.problem.N, **params)(*inputs)


def of_choices(change: Callable[[Tensor], Tensor]) -> Spoil:
    """A mistake in how the method's own choices are read."""

    def spoil(method: Attention, forward: Forward, inputs: tuple[Tensor, ...], keywords: dict[str, Any]) -> Tensor:
        choices = keywords.get("choices")
        made = method.choose(*inputs) if choices is None else choices
        assert isinstance(made, Tensor)
        return forward(*inputs, choices=change(made))

    return spoil


def checked(method: type[Attention], cell: Cell) -> list[Outcome]:
    """What its checks find, until one fails."""
    found: list[Outcome] = []
    for small in check_cells(method, cell):
        found.append(check(Job(cell=small, phase=Pass.CHECK, seed=7)))
        if isinstance(found[-1], Failed):
            break
    return found


def timed(cell: Cell) -> Outcome:
    """What comes of timing it."""
    return measure_time(Job(cell=cell, seed=7, limits=Limits(seconds=0.06)))


SMALL: dict[str, dict[str, Any]] = {
    "softmax.sdpa": {},
    "sparse.window": {"window": 24},
    "sparse.fixed": {"stride": 16},
    "lsh.reformer": {"bucket_size": 16, "rounds": 2},
    "linformer.linformer": {"k": 32},
    "vq.blockwise": {"block": 32, "codes": 16},
    "linear.chunked": {"chunk": 32},
    "delta.deltanet": {"chunk": 32},
    "gated.mamba2": {"chunk": 32},
    "blocks.moba": {"block": 32, "topk": 3},
    "blocks.nsa": {"block": 16, "selected": 3, "window": 32},
    "context.transformer_xl": {"segment": 64},
    "context.adaptive_span": {"span": 32, "ramp": 8},
    "landmark.nystrom": {"landmarks": 16},
    "pooling.key_value": {"factor": 4},
}
"""Of each family a method or two, with parts that are short beside N."""
NOT_CAUSAL = {"linformer.linformer", "landmark.nystrom", "pooling.key_value"}
STATEFUL = {"linear.chunked", "delta.deltanet", "gated.mamba2", "vq.blockwise", "context.transformer_xl", "softmax.sdpa"}


def border(name: str) -> Spoil:
    """The token after each border of a method's parts is that before it."""
    part = max(2, registry.load(name).span(Problem(N=512), SMALL[name]))

    def late_by_one(o: Tensor) -> Tensor:
        after = torch.arange(o.shape[2])[part::part]
        return o.index_copy(2, after, o[:, :, after - 1])

    return of_output(late_by_one)


ANYWHERE: dict[str, Spoil] = {
    "samples mixed": of_output(lambda o: o.roll(1, 0)),
    "heads mixed": of_output(lambda o: o.roll(1, 1)),
    "two heads only": of_output(lambda o: o[:, [min(h, 1) for h in range(o.shape[1])]]),
    "not a number at length": of_output(lambda o: o.index_fill(2, torch.tensor([o.shape[2] - 1]), torch.nan), beyond=256),
    "nothing at length": of_output(lambda o: None, beyond=64),
    "a token short at length": of_output(lambda o: o[:, :, 1:], beyond=64),
    "another dtype at length": of_output(torch.Tensor.double, beyond=64),
    "the last token of its own": of_output(lambda o: torch.cat([o[:, :, :-1], o[:, :, :1]], 2), beyond=64),
    "values late by one": of_inputs(lambda v: v.roll(1, 2), 2),
    "a hundredth too much": of_output(lambda o: o * 1.01),
    "gradient of values late by one": of_gradient(lambda g: g.roll(1, 2), 2),
    "a gradient forgotten": of_gradient(lambda g: g * (torch.arange(g.shape[2]) % 2)[:, None], 2),
}
OWN: dict[tuple[str, str], Spoil] = {
    ("sparse.window", "a key too few"): instead(registry.load("sparse.window"), window=23),
    ("sparse.window", "everything attended"): instead(registry.load("softmax.sdpa")),
    ("sparse.fixed", "pattern ignored"): instead(registry.load("softmax.sdpa")),
    ("sparse.fixed", "the other pattern"): instead(registry.load("sparse.strided"), stride=16),
    ("blocks.moba", "a block too few"): instead(registry.load("blocks.moba"), block=32, topk=2),
    ("blocks.nsa", "a shorter window"): instead(registry.load("blocks.nsa"), block=16, selected=3, window=31),
    ("context.adaptive_span", "a longer ramp"): instead(registry.load("context.adaptive_span"), span=32, ramp=9),
    ("context.transformer_xl", "no memory"): instead(registry.load("context.transformer_xl"), segment=64, memory=0),
    ("landmark.nystrom", "an iteration too few"): instead(registry.load("landmark.nystrom"), landmarks=16, iterations=5),
    ("pooling.key_value", "another factor"): instead(registry.load("pooling.key_value"), factor=5),
    ("softmax.sdpa", "no scale"): of_inputs(lambda q: q * q.shape[-1] ** 0.5, 0),
    ("linear.chunked", "another feature map"): instead(registry.load("linear.chunked"), chunk=32, feature_map="relu"),
    ("delta.deltanet", "strength ignored"): of_inputs(lambda beta: beta * 0 + 1, 3),
    ("lsh.reformer", "one round of two"): of_choices(lambda buckets: buckets[:, :, :1].expand_as(buckets)),
    ("lsh.reformer", "buckets misread"): of_choices(lambda buckets: buckets.roll(1, 3)),
    ("vq.blockwise", "codes misread"): of_choices(lambda codes: codes.roll(1, 2)),
    ("blocks.moba", "blocks misread"): of_choices(lambda blocks: (blocks - 1).clamp(min=-1)),
    ("gated.mamba2", "gate a token late"): of_inputs(lambda gate: gate.roll(1, 2), 3),
}
OWN |= {
    (name, "state dropped"): in_pieces(registry.load(name), 32 if name != "context.transformer_xl" else 64, **SMALL[name])
    for name in sorted(STATEFUL)
}
FEW = {"softmax.sdpa", "linear.chunked", "sparse.window", "lsh.reformer", "delta.deltanet"}
"""Families that are tried in any case."""
CASES = [(name, mistake, spoil) for name in SMALL for mistake, spoil in ANYWHERE.items()]
CASES += [(name, "off by one at a border", border(name)) for name in SMALL]
CASES += [(name, mistake, spoil) for (name, mistake), spoil in OWN.items()]


def cell(name: str, method: str, workload: Workload = Workload.FORWARD) -> Cell:
    problem = Problem(B=2, H=3, N=512, D=16, causal=name not in NOT_CAUSAL)
    return Cell(method=method, problem=problem, workload=workload, params=SMALL[name])


def cases(families: Container[str]) -> pytest.MarkDecorator:
    """Every mistake; those that are alike in all families only of these, the rest where there is time."""

    def marks(name: str, mistake: str) -> list[pytest.MarkDecorator]:
        return [] if mistake not in ANYWHERE or name in families else [pytest.mark.slow]

    found = [pytest.param(*case, id=f"{case[0]}: {case[1]}", marks=marks(case[0], case[1])) for case in CASES]
    return pytest.mark.parametrize(("name", "mistake", "spoil"), found)


@cases(FEW)
def test_a_check_finds_it(name: str, mistake: str, spoil: Spoil) -> None:
    method = mutant(registry.load(name), spoil)
    with named(method) as called:
        *_, last = checked(method, cell(name, called))
    assert isinstance(last, Failed), mistake
    assert last.status is Status.INCORRECT, last


@cases({"softmax.sdpa"})
def test_a_proof_finds_it_without_a_check(name: str, mistake: str, spoil: Spoil, monkeypatch: pytest.MonkeyPatch) -> None:
    # time for all that it looks at, although samples are few
    monkeypatch.setattr("attnbench.workloads.proof.SHARE", 100.0)
    method = mutant(registry.load(name), spoil)
    workload = Workload.FORWARD_BACKWARD if "gradient" in mistake else Workload.FORWARD
    with named(method) as called:
        outcome = timed(cell(name, called, workload))
    assert isinstance(outcome, Failed), mistake
    assert outcome.status is Status.INCORRECT, outcome
    assert len(outcome.samples["time"].values) >= 1, "its times are kept"


def each(names: Iterable[str]) -> pytest.MarkDecorator:
    """All of these families, most of them only where there is time."""
    found = [pytest.param(name, marks=[] if name in FEW else pytest.mark.slow) for name in names]
    return pytest.mark.parametrize("name", found)


@each(SMALL)
def test_what_they_are_made_from_is_right(name: str) -> None:
    assert all(isinstance(found, Measured) for found in checked(registry.load(name), cell(name, name)))
    for workload in (Workload.FORWARD, Workload.FORWARD_BACKWARD, *([Workload.DECODE] if name in STATEFUL else [])):
        measured(timed(cell(name, name, workload)))


def forgetful(base: type[Attention]) -> type[Attention]:
    """Every step begins anew."""

    class Forgetful(base):  # type: ignore[misc, valid-type]
        def step(self, *inputs: Tensor, state: State, **keywords: Any) -> tuple[Tensor, State]:
            empty = {id(x): x[:, :, :0] for x in inputs}
            _, nothing = self.prefill(*(empty[id(x)] for x in inputs), capacity=self.problem.N)
            o, _ = super().step(*inputs, state=nothing, **keywords)
            return o, state

    return Forgetful


@pytest.mark.parametrize("workload", [Workload.DECODE, pytest.param(Workload.DECODE_TOTAL, marks=pytest.mark.slow)])
@each(sorted(STATEFUL))
def test_a_wrong_step_is_found_by_check_and_proof(name: str, workload: Workload) -> None:
    with named(forgetful(registry.load(name))) as called:
        asked = cell(name, called, workload)
        *_, last = checked(registry.load(called), asked)
        outcomes = [last, timed(asked)]
    assert [isinstance(each, Failed) and each.status for each in outcomes] == [Status.INCORRECT, Status.INCORRECT]
