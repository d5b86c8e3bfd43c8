"""What every test here begins with."""

import pytest
import torch


@pytest.fixture(autouse=True)
def gradients() -> None:
    """Measuring sets whether gradients are taken, for a process of its own; here several share one."""
    torch.set_grad_enabled(True)
