"""What the tests of all attentions share: a fixed seed, and torch's modes put back."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def seeded() -> None:
    # without a GPU, torch.manual_seed notes the stack for three kinds of device that may come yet, in all a millisecond
    (torch if torch.cuda.is_available() else torch.default_generator).manual_seed(0)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """The kernels' scratch grows with the threads; and a setting leaves torch's modes as it set them."""
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision(precision)
    torch.set_grad_enabled(True)
