"""Launch the kernels of causal_product.cu on torch's current stream.

B batch, H heads, N tokens, D query/key width, M value width.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..eager.segments import accumulator
from .compiling import CONTRACT, Variant, accumulate, attend, kernel
from .layout import Pass

_NULL = 0


@dataclass(frozen=True)
class Launcher:
    """Launches kernels for contiguous tensors [B, H, N, D] and [B, H, N, M] on one device; `heads` is B H."""

    variant: Variant
    device: torch.device
    heads: int
    N: int

    def walk(self, of: Pass, inputs: tuple[Tensor, ...], rows: tuple[Tensor, ...], out: Tensor, eps: float = 0.0) -> None:
        """Compute one pass: `inputs` are a, b, c and, where a slope scales the output, x; `rows` denominators and deltas."""
        plan, real = self.variant.layout(of), accumulator(out.dtype)
        segment = plan.segment(self.heads, self.N)
        segments = -(-self.N // segment)
        states = out.new_empty(plan.stored(self.heads, self.N), dtype=real)
        grid, tile = (self.heads * plan.slices, segments), plan.tile * real.itemsize
        arguments = (*_pointers(4, inputs), *_pointers(2, rows), *_pointers(2, (states, out)), self.N, segment, eps)
        if segments > 1:
            self._launch(attend(plan, reads=False), grid, (plan.threads, tile), arguments)
            places = -(-plan.state // 128)
            self._launch(accumulate(plan), (places, self.heads), (128, 0), (*_pointers(1, (states,)), segments))
        self._launch(attend(plan, reads=True), grid, (plan.threads, tile), arguments)

    def contract(self, g: Tensor, o: Tensor, deltas: Tensor) -> None:
        """Write -g·o of each row: [B, H, N, M], [B, H, N, M] -> [B, H, N]."""
        rows = self.heads * self.N
        self._launch(CONTRACT, (-(-rows // 4), 1), (128, 0), (*_pointers(3, (g, o, deltas)), rows))

    def _launch(self, name: str, grid: tuple[int, int], block: tuple[int, int], arguments: tuple[int | float, ...]) -> None:
        launch(self.variant, name, self.device, grid, block, arguments)


def launch(
    variant: Variant,
    name: str,
    device: torch.device,
    grid: tuple[int, int],
    block: tuple[int, int],
    arguments: tuple[int | float, ...],
) -> None:
    """Launch one kernel on a grid of blocks; `block` is the threads and the bytes of shared memory of each.

    Arguments are 8 bytes each: int for pointers and long long, float for double. Raises ValueError where `device` is no GPU.
    """
    with torch.cuda.device(device):
        from cuda.core import Device, LaunchConfig, Stream  # type: ignore[import-untyped, unused-ignore]
        from cuda.core import launch as start

        # autograd's threads may have no context yet, and the driver's launch creates none
        Device(torch.cuda.current_device()).set_current()
        stream = Stream.from_handle(torch.cuda.current_stream().cuda_stream)
        config = LaunchConfig(grid=grid, block=block[0], shmem_size=block[1])
        start(stream, config, kernel(variant, name, torch.cuda.current_device()), *arguments)


def _pointers(count: int, tensors: tuple[Tensor, ...]) -> tuple[int, ...]:
    """Return the addresses of `count` tensors, with null for those at the end that are not given."""
    return (*(x.data_ptr() for x in tensors), *(_NULL,) * (count - len(tensors)))
