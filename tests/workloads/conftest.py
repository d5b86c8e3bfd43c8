"""What the tests of the workloads share: fixture attentions by name, and torch's global state put back."""

import importlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import Inquiry, Prospect
from attnbench.schema.outcome import Measured, Outcome
from attnbench.workloads.describe import describe
from tests.measure.conftest import FakeNvml

WITHOUT_MODEL = [workload for workload in Workload if not workload.has_model]


@pytest.fixture(autouse=True)
def attentions(monkeypatch: pytest.MonkeyPatch, one_thread: None) -> None:
    """The fixture attentions on the path."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "attentions"))


@pytest.fixture
def noted(attentions: None) -> list[Any]:
    """What the fixture attentions note of their calls, in order."""
    found: list[Any] = importlib.import_module("gate_cases").NOTED
    found.clear()
    return found


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """NVML that knows the one GPU which torch is made to tell of."""
    made = FakeNvml()
    monkeypatch.setattr("attnbench.measure.nvml.library", lambda: made)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid="1234"))
    return made


def prospect_of(cell: Cell) -> Prospect:
    """What is said of a cell before it runs."""
    (prospect,) = describe(Inquiry(method=cell.method, cells=(cell,))).prospects
    return prospect


def measured(outcome: Outcome) -> Measured:
    """An outcome that has samples; the reason where it has none."""
    assert isinstance(outcome, Measured), outcome.reason
    return outcome


def scores_of(outcome: Outcome) -> dict[str, float]:
    """The one value of each metric."""
    samples = measured(outcome).samples
    assert {len(series.values) for series in samples.values()} == {1}
    return {metric: series.values[0] for metric, series in samples.items()}


def same(a: tuple[Tensor, ...], b: tuple[Tensor, ...]) -> bool:
    """Whether tensors are equal, one by one."""
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))
