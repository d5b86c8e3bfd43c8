"""What the tests of the workloads share: fixture attentions by name, and torch's global state put back."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from tests.measure.conftest import FakeNvml


@pytest.fixture(autouse=True)
def attentions(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The fixture attentions on the path; a workload sets torch's modes for its whole process, here for one test."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "attentions"))
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision(precision)
    torch.set_grad_enabled(True)


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """NVML that knows the one GPU which torch is made to tell of."""
    made = FakeNvml()
    monkeypatch.setattr("attnbench.measure.nvml.library", lambda: made)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid="1234"))
    return made
