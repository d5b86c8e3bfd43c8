"""What a workload sets for its whole process: a worker ends with it, a session of tests goes on."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch


@contextmanager
def as_it_was(device: str) -> Iterator[None]:
    """Put back in the end: gradients on or off, matmul precision, random state, current GPU."""
    gradients, precision = torch.is_grad_enabled(), torch.get_float32_matmul_precision()
    gpu = torch.device(device) if device.startswith("cuda") else None
    here = nullcontext() if gpu is None else torch.cuda.device(gpu)
    with torch.random.fork_rng(devices=[] if gpu is None else [gpu.index]), here:
        try:
            yield
        finally:
            torch.set_grad_enabled(gradients)
            torch.set_float32_matmul_precision(precision)
