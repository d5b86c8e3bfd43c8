"""What the tests of all attentions share: a fixed seed, and torch's modes and compilations put back."""

import sys
from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """The kernels' scratch grows with the threads; and a setting leaves torch's modes as it set them."""
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision(precision)
    torch.set_grad_enabled(True)


@pytest.fixture(autouse=True)
def _compiled_afresh(request: pytest.FixtureRequest) -> Iterator[None]:
    """torch gives up compiling a function after eight shapes in one process, and no measurement has more than one."""
    yield
    if request.node.get_closest_marker("slow") and "torch._dynamo" in sys.modules:
        torch.compiler.reset()
