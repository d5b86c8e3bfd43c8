"""What the tests of all attentions share: a fixed seed."""

import pytest
import torch


@pytest.fixture(autouse=True)
def seeded() -> None:
    # without a GPU, torch.manual_seed notes the stack for three kinds of device that may come yet, in all a millisecond
    (torch if torch.cuda.is_available() else torch.default_generator).manual_seed(0)
