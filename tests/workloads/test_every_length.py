"""Every shipped method is what its definition says at the lengths at which it is timed, as far as its memory lets it go."""

from itertools import product

import pytest
import torch

from attnbench import registry
from attnbench.api import Tier
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import Job, Limits
from attnbench.schema.problem import Problem
from attnbench.workloads.timing import measure_time
from tests.workloads.conftest import measured

SHORT, LONG = (512, 4096), (2**14, 2**16)
_MOST_FLOPS = 5e10
"""Of a call: what takes more is not tried at that length, which of the longest leaves out all pairs of tokens."""
_HOLD_ALL_PAIRS = {"softmax.naive", "softmax.sdpa_math", "sparse.fixed_masked"}
"""They take gigabytes at the long ones."""
_STEP_BY_STEP = {"linear.recurrent", "delta.ttt_linear"}
"""They take minutes at the longest."""


def affordable(cell: Cell) -> bool:
    """Of the long ones, those that are not dense."""
    cost = registry.load(cell.method).cost(cell.problem, {}, cell.workload)
    is_small = cost is not None and cost.executed_flops < _MOST_FLOPS
    is_slow = cell.method in _STEP_BY_STEP and cell.problem.N in LONG[1:]
    return cell.problem.N in SHORT or (cell.method not in _HOLD_ALL_PAIRS and is_small and not is_slow)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", registry.catalogue())
def test_a_method_is_its_definition_at_every_length(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # time for all that a proof looks at, although samples are few
    monkeypatch.setattr("attnbench.workloads.proof.SHARE", 1000.0)
    method = registry.load(name)
    if registry.missing(method):
        return
    # to compile for one length takes as long as to measure all
    lengths = SHORT if method.tier is Tier.COMPILED else (*SHORT, *LONG)
    for N, causal in product(lengths, (True, False)):
        # a process that compiles for many lengths gives up; those that measure have one each
        torch.compiler.reset()
        problem = Problem(B=1 if N in LONG else 2, H=2, N=N, D=16, causal=causal)
        cells = [Cell(method=name, problem=problem, workload=w) for w in (Workload.FORWARD_BACKWARD, Workload.FORWARD)]
        # with a backward the output is looked at too
        for cell in [cell for cell in cells if method.refusal(cell) is None and affordable(cell)][:1]:
            found = measured(measure_time(Job(cell=cell, limits=Limits(seconds=0.01), warmup=1, seed=N)))
            assert int(found.facts["rows_compared"] or 0) >= 64
