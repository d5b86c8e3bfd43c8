"""How far rounding takes a method from its definition, which it is at every length, and whether it gives the same twice."""

from itertools import product
from typing import Any

import pytest

from attnbench import registry
from attnbench.api import Tier
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import Job, Limits, Pass
from attnbench.schema.outcome import (
    BATCH_DIFFERENCE,
    DETERMINISTIC_COST,
    DRIFT,
    GRADIENT_ROUNDING,
    NUMERICS_SCORES,
    ROUNDING,
    RUN_DIFFERENCE,
    STEP_DIFFERENCE,
    WORST_ROW,
    Failed,
    Outcome,
    Status,
)
from attnbench.schema.problem import DType, Problem
from attnbench.workloads.holding import tolerance
from attnbench.workloads.numerics import measure_numerics
from attnbench.workloads.timing import measure_time
from tests.workloads.conftest import measured, scores_of

SHARE = 1e-5
"""By which the attentions of gate_cases are off."""


def outcome_of(name: str, **fields: Any) -> Outcome:
    problem = Problem(**{"B": 2, "H": 2, "N": 96, "D": 8, "causal": True, **fields})
    cell = Cell(method=name if "." in name else f"gate_cases:{name}", problem=problem, workload=Workload.NUMERICS)
    return measure_numerics(Job(cell=cell, phase=Pass.NUMERICS, seed=4, limits=Limits(seconds=0.01)))


def scores(name: str, **fields: Any) -> dict[str, float]:
    return scores_of(outcome_of(name, **fields))


@pytest.mark.parametrize(
    ("dtype", "low", "high"), [(DType.FLOAT64, 0.0, 1e-15), (DType.FLOAT32, 1e-8, 1e-6), (DType.BFLOAT16, 1e-4, 2e-2)]
)
def test_a_right_method_is_rounded_as_its_dtype_rounds_and_has_every_score(dtype: DType, low: float, high: float) -> None:
    found = scores("Right", dtype=dtype)
    # without any rounding there is none that could grow
    assert set(NUMERICS_SCORES) - set(found) == ({DRIFT} if found[ROUNDING] == 0 else set())
    assert low <= found[ROUNDING] <= found[WORST_ROW]
    assert low <= found[GRADIENT_ROUNDING]
    assert max(found[ROUNDING], found[GRADIENT_ROUNDING]) < high
    assert found[RUN_DIFFERENCE] == 0
    assert found[DETERMINISTIC_COST] > 0


def test_the_share_by_which_rows_and_gradients_are_off_is_found() -> None:
    found = scores("Rounds")
    assert found[ROUNDING] == pytest.approx(SHARE, rel=0.05)
    # rows of 8 numbers are weighed by the length of several
    assert SHARE <= found[WORST_ROW] < 3 * SHARE
    assert found[GRADIENT_ROUNDING] == pytest.approx(SHARE, rel=0.05)
    assert found[DRIFT] == pytest.approx(1, rel=0.1)


def test_an_error_that_grows_along_the_sequence_is_a_drift() -> None:
    # √∫t² from 3/4 to 1 over that from 0 to 1/4
    assert scores("Drifts", N=512)[DRIFT] == pytest.approx((37 / 64 / (1 / 64)) ** 0.5, rel=0.15)


@pytest.mark.parametrize(
    ("name", "metric"),
    [("DependsOnTheBatch", BATCH_DIFFERENCE), ("DependsOnTheCall", RUN_DIFFERENCE), ("StepsApart", STEP_DIFFERENCE)],
)
def test_what_depends_on_batch_call_or_steps_shows_in_its_own_score(name: str, metric: str) -> None:
    assert scores(name)[metric] == pytest.approx(SHARE, rel=0.05)
    assert scores("Right")[metric] < SHARE / 10


def test_a_score_that_a_method_cannot_have_is_left_out() -> None:
    assert GRADIENT_ROUNDING not in scores("ForwardOnly")
    assert STEP_DIFFERENCE not in scores("Hides")
    assert BATCH_DIFFERENCE not in scores("Right", B=1)
    assert STEP_DIFFERENCE not in scores("Right", causal=False)
    assert {BATCH_DIFFERENCE, STEP_DIFFERENCE}.isdisjoint(scores("softmax.sdpa+packed", B=4, padding=0.5))


def test_where_there_is_no_deterministic_form_torch_s_reason_is_kept() -> None:
    found = measured(outcome_of("NeverTheSame"))
    assert DETERMINISTIC_COST not in found.samples
    assert found.facts["not_deterministic"] == "sum does not have a deterministic implementation, but you asked for one"


def test_what_rounding_does_not_explain_is_incorrect_and_no_score() -> None:
    outcome = outcome_of("TwiceAsMuch")
    assert isinstance(outcome, Failed)
    assert outcome.status is Status.INCORRECT
    assert "of its length" in outcome.reason


@pytest.mark.parametrize(  # of one token no gradient reaches the angles of Mamba-3
    ("name", "N"), [*(("softmax.naive", N) for N in (1, 5, 33)), ("gated.mamba3", 1), ("lsh.reformer", 128)]
)
def test_short_sequences_have_scores_too_and_hashing_is_held_against_the_buckets_that_it_chose(name: str, N: int) -> None:
    assert scores(name, N=N)[ROUNDING] < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", registry.catalogue())
def test_every_method_has_numerics_within_what_its_dtype_allows(name: str, causal: bool) -> None:
    cell = Cell(method=name, problem=Problem(B=2, H=2, N=130, D=16, causal=causal), workload=Workload.NUMERICS)
    method = registry.load(name)
    if registry.missing(method) or method.refusal(cell.call):
        return
    found = scores_of(measure_numerics(Job(cell=cell, phase=Pass.NUMERICS, limits=Limits(seconds=0.01))))
    assert found[ROUNDING] < 10 * tolerance(cell)


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
        problem = Problem(B=1 if N in LONG else 2, H=2, N=N, D=16, causal=causal)
        cells = [Cell(method=name, problem=problem, workload=w) for w in (Workload.FORWARD_BACKWARD, Workload.FORWARD)]
        # with a backward the output is looked at too
        for cell in [cell for cell in cells if method.refusal(cell) is None and affordable(cell)][:1]:
            found = measured(measure_time(Job(cell=cell, limits=Limits(seconds=0.01), warmup=1, seed=N)))
            assert int(found.facts["rows_compared"] or 0) >= 64
