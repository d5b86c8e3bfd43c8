"""The definition of rows at any length, the choice of rows, and how far they may be off."""

import contextlib
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnbench import registry
from attnbench.schema.cell import Cell, Precision, Workload
from attnbench.schema.problem import DType, Problem
from attnbench.workloads import truth
from attnbench.workloads.holding import WrongError, deviations, excused, hold_gradients, hold_rows, tolerance
from attnbench.workloads.setting import Setting, whole
from attnbench.workloads.truth import ROWS, NoTruthError, Place, Truth, last_tokens, places, tokens

PLACE = Place(1, 2, (0, 17, 39))
B, H = st.integers(1, 9), st.integers(1, 12)
N, SPAN = st.integers(1, 5000), st.integers(1, 600)


def truth_of(name: str, **fields: object) -> tuple[Truth, torch.Tensor]:
    """A truth on random inputs, and the whole output in float64."""
    problem = Problem(**{"B": 2, "H": 4, "N": 40, "D": 8, "kv_heads": 2, "causal": True, **fields})
    method = registry.build(name, problem)
    inputs = type(method).inputs(problem, torch.Generator().manual_seed(3))
    made = Truth(method, inputs)
    wide = {id(x): x.double() for x in inputs}
    return made, made.definition.reference(*(wide[id(x)] for x in inputs))


@pytest.mark.parametrize("name", ["softmax.sdpa", "gate_cases:Right"])
def test_rows_are_those_of_the_reference_with_and_without_rows_of_its_own(name: str) -> None:
    made, whole = truth_of(name)
    torch.testing.assert_close(made.rows(PLACE), whole[1, 2, [0, 17, 39]])


def test_gradients_reach_the_parts_that_were_read_and_no_others() -> None:
    made, _ = truth_of("softmax.sdpa")
    for x in made.inputs:
        x.requires_grad_()
    found, parameters = made.gradients([PLACE], [torch.ones(3, 8, dtype=torch.float64)])
    assert set(found) == {(0, 1, 2), (1, 1, 1), (2, 1, 1)}
    assert all(g.dtype is torch.float64 and bool(g.any()) for g in found.values())
    assert parameters == []


def test_a_reference_that_is_too_large_is_not_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truth, "MOST_SCORES", 1000)
    made, _ = truth_of("gate_cases:Right")
    with pytest.raises(NoTruthError, match="has no `rows`, and its reference is too large at N=40"):
        made.rows(PLACE)


def test_roundings_are_the_definition_in_the_method_s_dtype_and_on_inputs_moved_by_a_last_place_at_most() -> None:
    made, _ = truth_of("linear.chunked", kv_heads=4)
    made.rows(PLACE)
    assert all(p.dtype is torch.float32 for p in made.method.parameters()), "the method itself stays in its dtype"
    narrow, *moved = made.rounded()
    assert narrow.rows(PLACE).dtype is torch.float32
    for other in moved:
        other.rows(PLACE)
        for part, x in made.parts.items():
            assert 0 < float((other.parts[part] / x - 1).abs().max()) <= torch.finfo(torch.float32).eps
    assert len({float(other.parts[0, 1, 2][0, 0]) for other in moved}) == len(moved)


def test_a_first_token_whose_one_product_cancels_is_excused_even_where_the_definition_has_luck() -> None:
    """Its output is (q·k) v, of which float32 may be off by any share, or by none; here it is summed in two orders."""
    problem = Problem(B=1, H=1, N=2, D=64, causal=True)
    method = registry.build("gated.mamba2", problem)
    cell, first, lucky = Cell(method="gated.mamba2", problem=problem), Place(0, 0, (0,)), 0
    for seed in range(20):
        q, k, v, *rest = type(method).inputs(problem, torch.Generator().manual_seed(seed))
        k[0, 0, 0] -= q[0, 0, 0] * ((q[0, 0, 0] @ k[0, 0, 0] - 1e-3) / q[0, 0, 0].square().sum())
        inputs = (q, k, v, *rest)
        made = Truth(method, inputs)
        want, product = made.rows(first).detach(), q[0, 0, 0].double() @ k[0, 0, 0].double()
        scale = float(want[0, 0] / (product * v[0, 0, 0, 0]))
        got = ((q[0, 0, 0] * k[0, 0, 0]).flip(0).cumsum(0)[-1] * scale * v[0, 0, 0])[None]
        own = deviations(next(made.rounded()).rows(first), want)
        lucky += bool(deviations(got, want) > torch.clamp(4 * own, min=tolerance(cell)))
        hold_rows(Setting(cell, method, inputs), made, first, [got])
        with pytest.raises(WrongError, match="in row 0 of head 0"):
            hold_rows(Setting(cell, method, inputs), made, first, [1.05 * got])
    assert lucky


@given(N=N, span=SPAN, count=st.integers(2, 70), seed=st.integers(), first=st.integers(0, 4999))
def test_tokens_are_as_many_as_asked_for_and_the_outermost(N: int, span: int, count: int, seed: int, first: int) -> None:
    first = min(first, N - 1)
    at = tokens(N, span, count, random.Random(seed), first)
    assert list(at) == sorted(set(at))
    assert len(at) == min(count, N - first)
    assert (at[0], at[-1]) == (first, N - 1)


@given(B=B, H=H, N=N, span=SPAN, seed=st.integers())
def test_places_have_64_rows_or_all_and_the_outermost_heads(B: int, H: int, N: int, span: int, seed: int) -> None:
    found = places(B, H, N, span, random.Random(seed))
    heads = {(place.b, place.h) for place in found}
    assert len(heads) == len(found)
    assert {(0, 0), (B - 1, H - 1)} <= heads <= {(b, h) for b in range(B) for h in range(H)}
    assert sum(len(place.at) for place in found) >= min(ROWS, len(found) * N)


@given(B=B, H=H, N=N, new=st.integers(1, 16), seed=st.integers())
def test_of_a_step_only_new_tokens_are_looked_at(B: int, H: int, N: int, new: int, seed: int) -> None:
    first = max(0, N - new)
    found = last_tokens(B, H, N, random.Random(seed), first)
    assert all(place.at and set(place.at) <= set(range(first, N)) for place in found)
    assert len({(place.b, place.h) for place in found}) == len(found) <= ROWS
    assert len({place.b for place in found}) <= 4


def test_half_of_the_tokens_lie_beside_borders_and_nobody_knows_beforehand_which_place_comes_first() -> None:
    at = tokens(100_000, 100, 60, random.Random(1))
    assert sum(min(token % 100, -token % 100) <= 1 for token in at) >= 25
    assert len({places(4, 4, 64, 8, random.Random(seed))[0] for seed in range(20)}) > 5


def test_each_row_is_off_as_a_share_of_its_own_length_and_narrow_ones_as_a_share_of_that_of_several() -> None:
    want = torch.ones(2, 64) * torch.tensor([[100.0], [0.01]])
    assert deviations(want + 0.01, want).tolist() == pytest.approx([1e-4, 1.0], rel=1e-3)
    narrow = torch.tensor([[1.0], [1e-6], [1.0], [1.0]])
    assert float(deviations(narrow + 1e-6, narrow).max()) < 1e-5
    # what is no number, or not the nothing that is right, is infinitely far
    want = torch.ones(3, 64)
    want[1:] = 0
    got = want.clone()
    got[0, 5], got[1, 0] = torch.nan, 1e-30
    assert deviations(got, want).tolist() == [torch.inf, torch.inf, 0]


def test_a_definition_that_is_off_itself_excuses_eight_times_as_much_but_never_more_than_half() -> None:
    own = torch.tensor([0.001, 0.05, 0.4, torch.nan, torch.inf])
    assert excused(torch.ones(5), 0.01, [own]).tolist() == pytest.approx([0.01, 0.4, 0.5, 0.01, 0.01])
    # it is rounded only until what is off is excused
    others = iter(torch.tensor([[0.005], [0.015], [0.1]]))
    assert excused(torch.tensor([0.1]), 0.01, others).tolist() == pytest.approx([0.12])
    assert next(others).tolist() == pytest.approx([0.1])
    assert excused(torch.tensor([0.01]), 0.01, others).tolist() == pytest.approx([0.01])


@pytest.mark.parametrize(
    ("dtype", "precision", "allowed"),
    [
        (DType.FLOAT64, Precision.HIGHEST, 1e-9),
        (DType.FLOAT32, Precision.HIGHEST, 5e-5),
        (DType.FLOAT32, Precision.HIGH, 1e-2),
        (DType.BFLOAT16, Precision.MEDIUM, 3e-2),
    ],
)
def test_rounder_numbers_may_be_further_off(dtype: DType, precision: Precision, allowed: float) -> None:
    cell = Cell(method="m", problem=Problem(N=8, dtype=dtype), workload=Workload.FORWARD, matmul_precision=precision)
    assert tolerance(cell) == allowed


@pytest.mark.parametrize(("share", "right"), [(2e-5, True), (1e-2, False)])
def test_a_parameter_whose_gradient_cancels_is_judged_by_what_each_row_gives_it(share: float, *, right: bool) -> None:
    problem, workload = Problem(H=1, N=40, D=8, causal=True), Workload.FORWARD_BACKWARD
    setting = whole(Cell(method="sparse.window_sinks", problem=problem, params={"window": 9}, workload=workload), 1)
    made, place = Truth(setting.method, setting.inputs), Place(0, 0, (30, 37))
    weights = torch.randn(2, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    first, second = (made.gradients([Place(0, 0, (t,))], [w[None]])[1][0] for t, w in zip(place.at, weights, strict=True))
    # the two rows give nearly opposite shares, of which a ten thousandth is left
    weights[1] *= -float(first / second) * (1 - 1e-4)
    found, (sink,) = made.gradients([place], [weights])
    assert float(sink.abs()) < 2e-4 * float(first.abs())
    got = [torch.zeros_like(x, dtype=torch.float64) for x in setting.inputs]
    for (i, b, h), g in found.items():
        got[i][b, h] = g
    off = float(first.abs()) * share
    with contextlib.nullcontext() if right else pytest.raises(WrongError, match="gradient of sinks is off by"):
        hold_gradients(setting, made, [(place, weights)], [*got, sink + off], random.Random(0))
