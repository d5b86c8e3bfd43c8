"""What every test here begins with, and the module that most are about."""

from typing import Any

import pytest
import torch


@pytest.fixture(autouse=True)
def gradients() -> None:
    """Measuring sets whether gradients are taken, for a process of its own; here several share one."""
    torch.set_grad_enabled(True)


@pytest.fixture
def hf() -> Any:
    """Of attnbench: imported only where a test asks for it, since it imports transformers."""
    from attnbench import hf

    return hf
