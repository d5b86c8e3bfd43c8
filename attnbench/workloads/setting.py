"""Settings: a method built for a cell with its inputs and the call to measure, under the cell's stated conditions."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from inspect import Parameter, signature
from typing import Any

import torch
from torch import Tensor, nn

from attnbench import registry
from attnbench.api import Attention, draw, each_once, padding_mask
from attnbench.measure.host_memory import Reading
from attnbench.measure.vector_math import choose_kernels
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.noun import Facts
from attnbench.workloads.inputs import draw_inputs

Inputs = tuple[Tensor, ...]
_DRAWN_AGAIN = 2**20
"""The most numbers that are drawn again where other values are wanted; more are moved around, which is far quicker."""
_FEW_TOKENS, _STRIDE = 64, 7919


@dataclass
class Setting:
    """A method on a device and its inputs; `call` is what is measured, `forward` its first half.

    Calls take several sets of inputs in turns, if there are, so that nothing kept from one call is of use in the next.
    """

    cell: Cell
    method: Attention
    inputs: Inputs
    """The inputs of the present call."""
    gradient: Tensor | None = None
    """The one fixed dL/do of forward_backward, N(0, 1)."""
    key_mask: Tensor | None = None
    """The keys that may be seen, bool [B, N], where the problem has padding."""
    sets: list[Inputs] = field(init=False)
    turn: int = field(default=0, init=False)
    start: int = field(default=0, init=False)
    """The number of the drawn token that comes first, after tokens were moved around."""

    def __post_init__(self) -> None:
        self.sets = [self.inputs]

    @property
    def span(self) -> int:
        """The tokens of the longest part of the method's structure."""
        return max(1, type(self.method).span(self.cell.problem, self.cell.params))

    @property
    def shape_in_words(self) -> str:
        """The shape as `at B=2, H=3, N=321`."""
        p = self.cell.problem
        return f"at B={p.B}, H={p.H}, N={p.N}"

    def choices(self, seed: int, inputs: Inputs | None = None, draws: int = 1) -> Tensor | None:
        """Return the choices of a call with this seed, of the last of several; None where the definition makes its own."""
        if self.method.rows_choose:
            return None
        torch.manual_seed(seed)
        with torch.no_grad():
            for _ in range(draws):
                found = self.method.choose(*(self.inputs if inputs is None else inputs))
        return found

    def forward(self) -> Tensor:
        """Make one forward, under autograd where the workload has a backward."""
        o: Tensor = self.method(*self.inputs, **keywords_of(None, self.key_mask))
        return o

    def call(self) -> object:
        """Call on the next set of inputs; return the output, or with a backward the output and all gradients."""
        self.turn = (self.turn + 1) % len(self.sets)
        self.inputs = self.sets[self.turn]
        o = self.forward()
        return o if self.gradient is None else (o, *torch.autograd.grad(o, self.leaves(), self.gradient))

    def trial(self) -> object:
        """Make the part of a call that takes the most memory and from which its time is estimated: mostly all of it."""
        return self.call()

    @property
    def trials(self) -> float:
        """The number of trials that take as long as a call."""
        return 1

    def add_sets(self, count: int) -> None:
        """Make further sets, up to `count` in all: the same tokens from another one on, in the same layout."""
        N = self.cell.problem.N

        def turned(x: Tensor, start: int) -> Tensor:
            fresh = torch.empty_like(x, requires_grad=False)
            rest = x.shape[2] - start
            fresh[:, :, :rest], fresh[:, :, rest:] = x.detach()[:, :, start:], x.detach()[:, :, :start]
            return fresh.requires_grad_(x.requires_grad)

        for number in range(len(self.sets), count):
            self.sets.append(each_once(self.sets[0], partial(turned, start=number * N // count)))

    def refill(self, seed: int) -> None:
        """Write other values into the storages of the present inputs; the same seed gives the same values."""
        tensors, N = unique(self.inputs), self.inputs[-1].shape[2]
        if N <= _FEW_TOKENS or sum(x.numel() for x in tensors) <= _DRAWN_AGAIN:
            drawn = draw_inputs(type(self.method), self.cell, generator(self.cell, seed))
            overwrite(self.inputs, drawn)
            return
        start = 1 + seed * _STRIDE % (N - 1)
        for x in tensors:
            # sample by sample, which needs little memory
            for sample in x.data:
                sample.copy_(sample.roll(self.start - start, dims=1))
        self.start = start

    def leaves(self) -> list[Tensor]:
        """Return the inputs and parameters that need gradients, each once: shared-QK methods take one tensor twice."""
        return unique([*self.inputs, *self.method.parameters()])

    @property
    def names(self) -> list[str]:
        """The names that `forward` has for its inputs."""
        kinds = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
        own = [name for name, each in signature(self.method.forward).parameters.items() if each.kind in kinds]
        return [own[i] if i < len(own) else f"input {i}" for i in range(len(self.inputs))]

    def sample(self, b: int) -> tuple[Inputs, int]:
        """Return all tokens that sample b of the present call attends, [., heads, N, ·], and the sample's number in them."""
        return self.inputs, b

    def output(self) -> Reading:
        """Return the bytes of what a call returns."""
        p, tokens = self.cell.problem, self.cell.problem.N - self.cell.first_token
        size = p.B * p.H * tokens * p.M * self.inputs[-1].element_size()
        return Reading(size, "B H N M x element size; in decoding N is the new tokens")

    def state_bytes(self) -> int | None:
        """Return the bytes of the state between tokens; None where none is kept."""
        return None

    @property
    def facts(self) -> Facts:
        """What a reader must know of what is called, beyond its cell."""
        return {}


@dataclass(kw_only=True)
class Modelled(Setting):
    """`method` is the attention of a layer, and `inputs` are token numbers, int64 [B, n]."""

    model: nn.Module


@dataclass
class Backward(Setting):
    """A call takes the gradients once more of the one forward that was made of the present inputs."""

    made: Tensor = field(init=False)
    """The output of that forward."""
    _seed: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.made = self.forward()

    def call(self) -> object:
        """Return the output and all gradients."""
        return self.made, *torch.autograd.grad(self.made, self.leaves(), self.gradient, retain_graph=True)

    def refill(self, seed: int) -> None:
        """Write other values into the inputs, and make a forward of them; the values of this seed are left as they are."""
        if seed == self._seed:
            return
        self._seed = seed
        super().refill(seed)
        torch.manual_seed(seed)
        self.made = self.forward()


def build(cell: Cell, seed: int) -> Attention:
    """Build the method on its device, after setting the process up. Raises what the method raises."""
    set_up(cell, seed)
    method = registry.build_for(cell.call)
    return method.to(device=cell.device, dtype=getattr(torch, cell.problem.dtype))


def set_up(cell: Cell, seed: int) -> None:
    """Set what the cell states for the whole process: device, precision, gradients; and the seed of a method's own draws."""
    if cell.device_kind == "cuda":
        # clocks, events and graphs use the current device
        torch.cuda.set_device(cell.device)
    choose_kernels()
    torch.set_float32_matmul_precision(cell.matmul_precision.value)
    torch.set_grad_enabled(cell.workload.learns)
    # another seed than that of the inputs, which so do not depend on a method's own draws (rotations, projections)
    torch.manual_seed(seed + 1)


def generator(cell: Cell, seed: int) -> torch.Generator:
    """Return the generator that inputs are drawn by: the same stream for a shape, whatever the method."""
    return torch.Generator(device=cell.device).manual_seed(seed)


def whole(cell: Cell, seed: int) -> Setting:
    """Prepare a call on all N tokens at once. Raises what the method raises."""
    method, source = build(cell, seed), generator(cell, seed)
    inputs, gradient = draw_inputs(type(method), cell, source), None
    if cell.workload.learns:
        for leaf in unique(inputs):
            leaf.requires_grad_(leaf.is_floating_point())
        # in the method's own layout, as its inputs, so that no backward pays for a transpose
        gradient = draw(cell.problem, cell.problem.H, cell.problem.M, source, method.layout)
    kind = Backward if cell.workload is Workload.BACKWARD else Setting
    return kind(cell, method, inputs, gradient, padding_mask(cell.problem, cell.device))


def overwrite(tensors: Inputs, fresh: Inputs) -> None:
    """Write new values into tensors without raising their versions, so that a method cannot notice."""
    for x, values in zip(tensors, fresh, strict=True):
        x.data.copy_(values)


def unique(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Return each floating-point tensor once, in order."""
    return list({id(t): t for t in tensors if t.is_floating_point()}.values())


def keywords_of(choices: Tensor | None, key_mask: Tensor | None = None) -> dict[str, Any]:
    """Return the keywords that a method takes beside its inputs, without those that it need not know."""
    given = {"choices": choices, "key_mask": key_mask}
    return {name: x for name, x in given.items() if x is not None}
