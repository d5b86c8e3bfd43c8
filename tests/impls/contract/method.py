"""What the contract may have to be told of a method beyond what its class says of itself."""

import math
from dataclasses import dataclass
from typing import Any

from hypothesis.strategies import SearchStrategy, fixed_dictionaries

from attnbench.api import Workload

Params = dict[str, Any]
FORWARD, BOTH, STEP, TOTAL = Workload.FORWARD, Workload.FORWARD_BACKWARD, Workload.DECODE, Workload.DECODE_TOTAL


def unfused(*modules: str) -> Params:
    """As where there is no fused kernel: what `cuts` of methods are that have one."""
    return {f"attnbench_impls.{module}.is_fused": lambda _: False for module in modules}


def drawn(**each: SearchStrategy[Any]) -> SearchStrategy[Params]:
    """Parameters by name."""
    return fixed_dictionaries(each)


def cut(module: str, **constants: int) -> Params:
    """Constants of a module of attnbench_impls."""
    return {f"attnbench_impls.{module}.{name}": value for name, value in constants.items()}


@dataclass(frozen=True)
class Method:
    """One entry of a family's table. All of it may be left out, and a method without an entry is tried as it is by default."""

    variants: tuple[Params, ...] = ({},)
    """Parameters with which it is tried: each option, and parts so short that a few hundred tokens have several of them.

    The first two, which differ the most, are tried at everything in each change, the others at their values alone."""
    off_by: float = 0.0
    """How far off, as a share of the largest number, in float32 where it refuses float64. In float64 it is 1e-10 for all."""
    bends: tuple[Params, ...] = ()
    """Variants of which later tokens may move the last bits of earlier outputs, since they decide how a sum is cut."""
    any_params: SearchStrategy[Params] | None = None
    """Parameters that go together with any length, for hypothesis to draw."""
    cuts: tuple[Params, ...] = ()
    """Constants of its modules by which work is cut into portions, as so small that a short sequence has many."""
    numbered: bool = False
    """Whether what a head of k and v does follows from its number: where k and v are repeated, they are of other numbers."""
    by_length: bool = False
    """Whether how it mixes positions follows from the length: then a padded sequence is not what it is by itself."""
    dense: bool = False
    """Whether a row of its inputs must lie in one piece: its kernel, the only one that it may use, asks for that."""
    grows: float = math.inf
    """How many times as much work four times as many tokens take at most: 4 is linear, 16 the square."""
    sums: bool = False
    """Whether its state is sums over all tokens: of one size, in float32 at least, and the same however it was reached."""
    concatenates: bool = False
    """Whether each token makes its cache anew, one longer, as that of its package does: not in place, and never full."""
    steps_alike: bool = False
    """Whether a step costs the same wherever it is, as it does over sums."""
    counted: bool = True
    """Whether its FLOPs follow from the shape; not where they depend on its inputs."""
    limits: tuple[tuple[Params, str | None], ...] = ()
    """Fields of a problem or a cell and parameters, and words of the reason why that cannot be; None where it can. N = 256."""
    mistakes: tuple[Params, ...] = ()
    """Parameters that constructor and cost refuse as `name=value … must be …`."""
