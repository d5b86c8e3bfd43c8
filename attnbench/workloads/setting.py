"""From a cell to a method, its inputs and the call to measure, under the cell's stated conditions."""

from dataclasses import dataclass

import torch
from torch import Tensor

from attnbench import registry
from attnbench.api import Attention, draw
from attnbench.schema.cell import Cell, Workload


@dataclass
class Setting:
    """A method on a device with inputs drawn; `call` is what is measured, `forward` its first half."""

    cell: Cell
    method: Attention
    inputs: tuple[Tensor, ...]
    gradient: Tensor | None
    """The one fixed dL/do of forward_backward, N(0, 1)."""

    def forward(self) -> Tensor:
        """One forward; under autograd where the workload has a backward."""
        o: Tensor = self.method(*self.inputs)
        return o

    def call(self) -> object:
        """One call of the workload; gradients are returned and so dropped before the next."""
        return self.forward() if self.gradient is None else torch.autograd.grad(self.forward(), self.leaves(), self.gradient)

    def leaves(self) -> list[Tensor]:
        """Inputs and parameters that need gradients, each once: shared-QK methods take one tensor twice."""
        return unique([*self.inputs, *self.method.parameters()])


def prepare(cell: Cell, seed: int) -> Setting:
    """Build the method, draw its inputs in its native layout, set what the cell states. Raises what the method raises."""
    torch.set_float32_matmul_precision(cell.matmul_precision.value)
    torch.set_grad_enabled(cell.workload is Workload.FORWARD_BACKWARD)
    # seeded apart, so that a method's own draws (rotations, projections) do not move its inputs
    torch.manual_seed(seed + 1)
    method = registry.build(cell.method, cell.problem, **cell.params)
    method.to(device=cell.device, dtype=getattr(torch, cell.problem.dtype))
    generator = torch.Generator(device=cell.device).manual_seed(seed)
    inputs = type(method).inputs(cell.problem, generator)
    if cell.workload is Workload.FORWARD:
        return Setting(cell, method, inputs, None)
    for leaf in unique(list(inputs)):
        leaf.requires_grad_(leaf.is_floating_point())
    # in the method's own layout, like its inputs: no backward pays for a transpose
    gradient = draw(cell.problem, cell.problem.H, cell.problem.M, generator, method.layout)
    return Setting(cell, method, inputs, gradient)


def unique(tensors: list[Tensor]) -> list[Tensor]:
    """Each floating-point tensor once, in order."""
    return list({id(t): t for t in tensors if t.is_floating_point()}.values())
