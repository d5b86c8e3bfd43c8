"""From a cell to a method, its inputs and the call to measure, under the cell's stated conditions."""

from dataclasses import dataclass, field
from inspect import Parameter, signature
from typing import Any

import torch
from torch import Tensor

from attnbench import registry
from attnbench.api import Attention, Problem, draw, padding_mask
from attnbench.measure.vector_math import choose_kernels
from attnbench.schema.cell import Cell, Workload
from attnbench.workloads.inputs import draw_inputs

Inputs = tuple[Tensor, ...]
_DRAWN_AGAIN = 2**20
"""Numbers that are drawn anew where other values are wanted; more of them change places, which is far quicker."""
_FEW_TOKENS, _STRIDE = 64, 7919


@dataclass
class Setting:
    """A method on a device with inputs drawn; `call` is what is measured, `forward` its first half.

    Calls take several sets of inputs in turns, where there are: what is kept of one is of no use to the next.
    """

    cell: Cell
    method: Attention
    inputs: Inputs
    """Of the present call."""
    gradient: Tensor | None = None
    """The one fixed dL/do of forward_backward, N(0, 1)."""
    key_mask: Tensor | None = None
    """Bool [B, N], where the problem has padding."""
    sets: list[Inputs] = field(init=False)
    turn: int = field(default=0, init=False)
    start: int = field(default=0, init=False)
    """Which of the tokens that were drawn is the first, after values were refilled."""

    def __post_init__(self) -> None:
        self.sets = [self.inputs]

    @property
    def keywords(self) -> dict[str, Any]:
        """What `forward` and `reference` take beside the inputs."""
        return {} if self.key_mask is None else {"key_mask": self.key_mask}

    def forward(self) -> Tensor:
        """One forward; under autograd where the workload has a backward."""
        o: Tensor = self.method(*self.inputs, **self.keywords)
        return o

    def call(self) -> object:
        """One call of the workload on the next set of inputs: the output, or with a backward the output and all gradients."""
        self.turn = (self.turn + 1) % len(self.sets)
        self.inputs = self.sets[self.turn]
        o = self.forward()
        return o if self.gradient is None else (o, *torch.autograd.grad(o, self.leaves(), self.gradient))

    def add_sets(self, count: int) -> None:
        """So many sets in all: the same tokens from another one on, in the same layout."""
        N = self.cell.problem.N
        for number in range(len(self.sets), count):
            turned = {id(x): _turned(x, number * N // count) for x in self.sets[0]}
            self.sets.append(tuple(turned[id(x)] for x in self.sets[0]))

    def refill(self, seed: int) -> None:
        """Other values in the storages of the present inputs, and only there: the tensors are those that they were.

        Of the same seed come the same values.
        """
        tensors, N = unique(list(self.inputs)), self.inputs[-1].shape[2]
        if N <= _FEW_TOKENS or sum(x.numel() for x in tensors) <= _DRAWN_AGAIN:
            drawn = draw_inputs(type(self.method), self.cell, generator(self.cell, seed))
            overwrite({id(x): fresh for x, fresh in zip(self.inputs, drawn, strict=True)}, self.inputs)
            return
        start = 1 + seed * _STRIDE % (N - 1)
        for x in tensors:
            _turn(x, (start - self.start) % N)
        self.start = start

    def leaves(self) -> list[Tensor]:
        """Inputs and parameters that need gradients, each once: shared-QK methods take one tensor twice."""
        return unique([*self.inputs, *self.method.parameters()])

    @property
    def names(self) -> list[str]:
        """What `forward` calls each of its inputs."""
        kinds = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
        own = [name for name, each in signature(self.method.forward).parameters.items() if each.kind in kinds]
        return [own[i] if i < len(own) else f"input {i}" for i in range(len(self.inputs))]

    @property
    def first_row(self) -> int:
        """Which token the first row of the output is of."""
        return 0

    def sample(self, b: int) -> tuple[Inputs, int]:
        """All tokens that sample b of the present call attends, [., heads, N, ·], and the number of the sample in them."""
        return self.inputs, b

    def state_bytes(self) -> int | None:
        """Bytes of the state between tokens; None where none is kept."""
        return None


def build(cell: Cell, seed: int) -> Attention:
    """The method on its device, and what the cell states set. Raises what the method raises."""
    if cell.device_kind == "cuda":
        # clocks, events and graphs are of the current device
        torch.cuda.set_device(cell.device)
    choose_kernels()
    torch.set_float32_matmul_precision(cell.matmul_precision.value)
    torch.set_grad_enabled(cell.workload is Workload.FORWARD_BACKWARD)
    # seeded apart, so that a method's own draws (rotations, projections) do not move its inputs
    torch.manual_seed(seed + 1)
    method = registry.build_for(cell.call)
    return method.to(device=cell.device, dtype=getattr(torch, cell.problem.dtype))


def generator(cell: Cell, seed: int) -> torch.Generator:
    """What inputs are drawn by: one stream for a shape, whatever the method."""
    return torch.Generator(device=cell.device).manual_seed(seed)


def whole(cell: Cell, seed: int) -> Setting:
    """All N tokens at once: the setting of forward and forward_backward. Raises what the method raises."""
    method, source = build(cell, seed), generator(cell, seed)
    inputs = draw_inputs(type(method), cell, source)
    setting = Setting(cell, method, inputs, key_mask=padding_mask(cell.problem, cell.device))
    if cell.workload is Workload.FORWARD_BACKWARD:
        for leaf in unique(list(inputs)):
            leaf.requires_grad_(leaf.is_floating_point())
        # in the method's own layout, like its inputs: no backward pays for a transpose
        setting.gradient = draw(cell.problem, cell.problem.H, cell.problem.M, source, method.layout)
    return setting


def _turned(x: Tensor, start: int) -> Tensor:
    """Of [B, heads, N, ...] the tokens from `start` on, then those before, in memory of their own."""
    turned = torch.empty_like(x, requires_grad=False)
    rest = x.shape[2] - start
    turned[:, :, :rest], turned[:, :, rest:] = x.detach()[:, :, start:], x.detach()[:, :, :start]
    return turned.requires_grad_(x.requires_grad)


def overwrite(by_old: dict[int, Tensor], tensors: Inputs) -> None:
    """Write new values into tensors; their versions stay as they are, for nobody is to be told."""
    for x in {id(x): x for x in tensors}.values():
        x.data.copy_(by_old[id(x)])


def _turn(x: Tensor, start: int) -> None:
    """Of [B, heads, N, ...] the tokens from `start` on, then those before, one sample after the other."""
    for sample in x.data:
        sample.copy_(sample.roll(-start, dims=1))


def with_batch(cell: Cell, B: int | None) -> Cell:
    """The cell with the batch that was found for it, if one was."""
    if B is None:
        return cell
    problem: Problem = cell.problem.model_copy(update={"B": B})
    return cell.model_copy(update={"problem": problem})


def unique(tensors: list[Tensor]) -> list[Tensor]:
    """Each floating-point tensor once, in order."""
    return list({id(t): t for t in tensors if t.is_floating_point()}.values())
