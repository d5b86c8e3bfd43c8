"""The backward that flash-linear-attention refuses on one kind of GPU is refused here, in words, and nothing else is."""

from typing import Any

import pytest
import torch

from attnbench.api import Cell, Problem
from attnbench.registry import load

GATED = ["gated.mamba2_fla", "delta.gated_deltanet_fla"]
WORDS = "its gated backward is wrong with Triton 3.6.0 on Hopper GPUs, so the package refuses it; take Triton 3.7.1"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A machine of which the test says what it has."""
    has: dict[str, Any] = {"triton": "3.6.0", "capability": (9, 0), "tilelang": None}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: has["capability"])
    monkeypatch.setattr("attnbench_impls.recurrence.hopper.version", lambda name: has[name])
    monkeypatch.setattr("attnbench_impls.recurrence.hopper.find_spec", lambda name: has[name])
    return has


def refusal(name: str, workload: str = "forward_backward") -> str | None:
    problem = Problem(N=64, causal=True, dtype="bfloat16")
    return load(name).why_not(Cell.model_validate({"method": name, "problem": problem, "workload": workload, "device": "cuda"}))


@pytest.mark.parametrize("name", GATED)
def test_a_gated_backward_on_hopper_is_refused_with_what_would_do(name: str, gpu: dict[str, Any]) -> None:
    assert refusal(name) == WORDS
    assert refusal(name, "forward") is None


@pytest.mark.parametrize("name", GATED)
@pytest.mark.parametrize(
    "other", [{"triton": "3.7.1"}, {"triton": "3.3.1"}, {"capability": (8, 0)}, {"capability": (10, 0)}, {"tilelang": "there"}]
)
def test_elsewhere_it_is_not(name: str, other: dict[str, Any], gpu: dict[str, Any]) -> None:
    gpu.update(other)
    assert refusal(name) is None


@pytest.mark.parametrize("name", ["gated.retnet_fla", "gated.gla_fla", "delta.deltanet_fla", "delta.kda_fla"])
def test_operators_that_do_not_reach_that_kernel_are_not_refused(name: str, gpu: dict[str, Any]) -> None:
    assert refusal(name) is None
