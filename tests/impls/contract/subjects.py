"""Which methods the contract is held against, and on which problems: all that are registered, by their own word.

A method is asked what it refuses, and tried on everything else. What its class cannot say stands in families/*.py.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from attnbench import registry
from attnbench.api import Attention, Cell, Cost, Problem, Tier, Workload
from tests.impls.contract.method import BOTH, FORWARD, Method, Params

NAMES = os.environ.get("ATTNBENCH_CONTRACT", "").split() or list(registry.catalogue())
"""All that are registered, or those that are asked for: `path/to/file.py:Class` holds the contract against one's own."""
SHAPES: tuple[Params, ...] = ({}, {"kv_heads": 2, "M": 5}, {"M": 5}, {"kv_heads": 2}, {"M": 12}, {"M": 1}, {"kv_heads": 1})
"""Values narrower and wider than keys, heads of k and v that serve several of q; the oddest come first."""
# reformer-pytorch and local-attention are always there, Triton and cuda-core with the tests; the rest is docs/peers.md
OURS = ("triton", "cuda-core", "reformer-pytorch", "local-attention")
SLOW = (pytest.mark.slow,)
PEER = (
    pytest.mark.peers,
    # of the packages, at their imports
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::ImportWarning", "ignore::UserWarning", "ignore::FutureWarning"
    ),
)


@cache
def declared() -> dict[str, Method]:
    """The tables of all families."""
    found: dict[str, Method] = {}
    for file in sorted((Path(__file__).parent / "families").glob("*.py")):
        found |= import_module(f"tests.impls.contract.families.{file.stem}").METHODS
    return found


def cost_of(name: str, problem: Problem, workload: Workload = FORWARD, params: Params | None = None) -> Cost:
    """By the formula of a method that has one."""
    cost = registry.load(name).cost(problem, params or {}, workload)
    assert cost is not None
    return cost


@dataclass(frozen=True)
class Variant:
    """A method with parameters."""

    name: str
    params: Params = field(default_factory=dict)

    def __str__(self) -> str:
        return " ".join([self.name, *(f"{name}={value}" for name, value in self.params.items())])

    @property
    def kind(self) -> type[Attention]:
        """Its class."""
        return registry.load(self.name)

    @property
    def method(self) -> Method:
        """What its family's table says of it."""
        return declared().get(self.name, Method())

    @property
    def leads(self) -> bool:
        """Whether a change is held against everything with it: only its values are looked at where it is not."""
        return self.params in self.method.variants[:2]

    def takes(self, problem: Problem, workload: Workload, device: str = "cpu") -> bool:
        """Whether it does not refuse."""
        cell = Cell(method=self.name, problem=problem, params=self.params, workload=workload, device=device)
        return self.kind.refusal(cell) is None

    def trains(self, problem: Problem, device: str = "cpu") -> bool:
        """Whether there is a backward."""
        return self.takes(problem, BOTH, device)

    def problem(self, workload: Workload = FORWARD, device: str = "cpu", **shape: Any) -> Problem | None:
        """Of this shape, small, and in the widest dtype that it takes, where nothing else is said; None if refused."""
        asked = (Problem(**{"B": 2, "H": 4, "D": 8, "dtype": dtype, **shape}) for dtype in ("float64", "float32"))
        return next((problem for problem in asked if self.takes(problem, workload, device)), None)

    def problems(self, N: int, *shapes: Params, workload: Workload = FORWARD, **more: Any) -> Iterator[Problem]:
        """Without a mask and causal, of each shape, what it takes; where none is named the plain one and the oddest."""
        for causal in (False, True):
            asked = (self.problem(workload, **{"N": N, "causal": causal, **more, **shape}) for shape in shapes or SHAPES)
            taken = [problem for problem in asked if problem is not None]
            yield from taken if shapes else taken[:2]

    def causal(self, N: int, workload: Workload = FORWARD, **shape: Any) -> Problem | None:
        """A causal problem of so many tokens, or of as many more as it asks for; None where it has no causal form."""
        lengths = (N, *(length for length in (64, 128, 192, 256) if length > N))
        asked = (self.problem(workload, **{"N": length, "causal": True, **shape}) for length in lengths)
        return next((problem for problem in asked if problem is not None), None)

    def some(self, N: int, **shape: Any) -> Problem:
        """A problem of so many tokens or more, without a mask where it can."""
        lengths = (N, *(length for length in (64, 128, 192, 256) if length > N))
        return next(problem for length in lengths for problem in self.problems(length, shape))

    def build(self, problem: Problem, device: str = "cpu") -> Any:
        """The method, from a fixed seed."""
        torch.default_generator.manual_seed(0)
        kind: Any = self.kind
        method = kind(problem, **self.params).to(device=device, dtype=getattr(torch, problem.dtype))
        # away from a start at zero, which would hide them; those of other people's modules are set to what they are for
        for parameter in method.parameters() if not marks_of(kind) else ():
            parameter.data += 0.1 * torch.randn_like(parameter)
        return method


def anywhere(name: str, workload: Workload, **shape: Any) -> Problem | None:
    """A problem of this shape, as a method takes it on some device; None where it takes none."""
    asked = (Problem(**{"dtype": dtype, **shape}) for dtype in ("float32", "bfloat16"))
    taken = (p for p in asked if any(Variant(name).takes(p, workload, device) for device in ("cpu", "cuda")))
    return next(taken, None)


def runs_here(kind: type[Attention]) -> bool:
    """Whether a CPU runs it in no time: what is compiled for each shape is held against its definition by its family."""
    return not registry.missing(kind) and kind.tier not in {Tier.COMPILED, Tier.TRITON, Tier.CUDA}


def marks_of(kind: type[Attention]) -> tuple[Any, ...]:
    """What needs the packages of others is marked so."""
    return () if all(package.startswith(OURS) for package in kind.requires) else PEER


VARIANTS = [
    variant
    for name in NAMES
    if runs_here(registry.load(name))
    for variant in (Variant(name, params) for params in declared().get(name, Method()).variants)
    if any(True for N in (64, 128, 256) for _ in variant.problems(N, {}))
]


def each(keep: Callable[[Variant], object] = lambda _: True, among: Iterable[Variant] = VARIANTS) -> list[Any]:
    """The variants as parameters of a test."""
    kept = ((one, (*marks_of(one.kind), *SLOW * (not one.leads))) for one in among if keep(one))
    return [pytest.param(one, id=str(one), marks=marks) for one, marks in kept]


def named(keep: Callable[[Method], object]) -> list[Any]:
    """The names of methods whose entries say something, as parameters of a test."""
    names = sorted({variant.name for variant in VARIANTS})
    return [pytest.param(name, marks=marks_of(registry.load(name))) for name in names if keep(Variant(name).method)]


def of_every_length() -> list[Any]:
    """Variants and lengths as parameters of a test, as far as they go together: one token, and beside the end of a part."""
    return [
        pytest.param(
            variant,
            N,
            id=f"{variant} N={N}",
            marks=(*marks_of(variant.kind), *SLOW * (N in ({2, 63} if variant.leads else {1, 2, 63, 64}))),
        )
        for variant in VARIANTS
        for N in (1, 2, 63, 64, 65, 130)
        if any(variant.problems(N))
    ]
