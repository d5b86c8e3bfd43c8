"""A triangle over projected keys is no causal mask, and the check says so."""

from pathlib import Path
from typing import Any

import pytest
import torch

from attnbench import Problem, registry
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import Job, Pass
from attnbench.schema.outcome import Failed, Measured, Outcome, Status
from attnbench.workloads.check import check
from tests.impls.contract.subjects import PEER

TRIANGLES = Path(__file__).with_name("linformer_triangles.py")
# a workload sets torch's modes for its whole process, here for one test
pytestmark = pytest.mark.usefixtures("one_thread")


def checked(name: str, workload: Workload = Workload.FORWARD_BACKWARD, **fields: Any) -> Outcome:
    cell = Cell(method=f"{TRIANGLES}:{name}", problem=Problem(H=2, N=64, D=8, **fields), workload=workload)
    return check(Job(cell=cell, phase=Pass.CHECK, seed=3))


def leaks(outcome: Outcome) -> bool:
    assert isinstance(outcome, Failed), outcome
    assert outcome.status is Status.INCORRECT
    return outcome.reason.startswith("causality (earlier outputs, when the future changes) off by")


@pytest.mark.parametrize("workload", [Workload.FORWARD, Workload.FORWARD_BACKWARD])
@pytest.mark.parametrize("name", ["Triangle", pytest.param("Package", marks=PEER)])
def test_a_triangle_over_projected_keys_leaks_the_future(name: str, workload: Workload) -> None:
    assert leaks(checked(name, workload, causal=True))
    # nothing but causality is wrong with it
    assert isinstance(checked(name, workload), Measured)


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ImportWarning", "ignore::UserWarning")
def test_the_first_output_of_linformer_pytorch_moves_with_the_last_token() -> None:
    method: Any = registry.load(f"{TRIANGLES}:Package")
    method = method(Problem(B=1, H=2, N=64, D=8, causal=True))
    q, k, v = (torch.randn(1, 2, 64, 8) for _ in "qkv")
    with torch.no_grad():
        before = method(q, k, v)[:, :, 0].clone()
        v[:, :, -1] += 1
        after = method(q, k, v)[:, :, 0]
    assert float((after - before).abs().max()) > 1e-3
