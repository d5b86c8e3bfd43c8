"""The formulas agree with the algorithms: work with what is needed, and steps with a sequence."""

import math
from itertools import product

import pytest
import torch

from attnbench import registry
from attnbench.api import Attention, Cost, Problem, Workload, io_bytes, nominal_flops
from tests.impls.contract.method import BOTH, FORWARD, STEP, TOTAL, Params
from tests.impls.contract.subjects import NAMES, Variant, anywhere, cost_of, each

STATED = [
    name
    for name in NAMES
    if registry.load(name).cost.__func__ is not Attention.cost.__func__  # type: ignore[attr-defined]
    and Variant(name).method.counted
]
"""The methods with a formula."""


@pytest.mark.parametrize("workload", [FORWARD, BOTH, STEP, TOTAL])
@pytest.mark.parametrize("name", STATED)
def test_all_count_nominally_alike_and_execute_and_move_what_is_needed(name: str, workload: Workload) -> None:
    kind = registry.load(name)
    # one tensor for queries and keys, or for keys and values, is moved once, and a latent instead of keys and values
    names = {each.name for each in kind.projections(Problem(N=8))}
    share = 0.64 if "qk" in names else 0.5 if names & {"latent", "kv"} else 1.0
    # what it takes, on some device, of a token and of some
    shapes: tuple[Params, ...] = ({}, {"kv_heads": 2, "H": 32}, {"M": 16}, {"padding": 0.5})
    for N, causal, shape in product((1, 256), (False, True), shapes):
        problem = anywhere(name, workload, **{"B": 2, "N": N, "D": 32, "causal": causal, **shape})
        if problem is None:
            continue
        cost = cost_of(name, problem, workload)
        assert cost.nominal_flops == nominal_flops(problem, workload)
        # its kernel multiplies queries with keys, which of a few hundred tokens is less work than their expansions
        assert cost.executed_flops >= cost.exact_flops >= 0 or name == "linear.based_fla"
        assert cost.traffic_bytes >= share * io_bytes(problem, workload)


def has_steps_of_one_sequence(variant: Variant) -> bool:
    """A stride that is not given follows from the length: the steps of shorter sequences are those of other patterns."""
    if variant.name not in STATED or not variant.kind.decodes or variant.causal(64, STEP) is None:
        return False
    spans = {variant.kind.span(Problem(N=n, causal=True), variant.params) for n in (8, 41, 512)}
    return len(spans) == 1 or not variant.name.startswith("sparse.")


@pytest.mark.parametrize("variant", each(has_steps_of_one_sequence))
def test_a_whole_sequence_costs_the_sum_of_its_steps(variant: Variant) -> None:
    def cost(workload: Workload, N: int) -> Cost:
        return cost_of(variant.name, Problem(B=2, H=4, N=N, D=8, M=6, causal=True), workload, variant.params)

    for N in (1, 3, 41):
        steps = [cost(STEP, n) for n in range(1, N + 1)]
        total = cost(TOTAL, N)
        for field in ("nominal_flops", "exact_flops", "executed_flops", "traffic_bytes"):
            added, slack = sum(getattr(one, field) for one in steps), 0.0
            if field == "traffic_bytes" and variant.name.startswith("sparse."):
                # a cache with room for one token more is written no less; the last steps may keep a token that nobody will see
                slack = N * 2 * 2 * 4 * (8 + 6) * 4
            assert added <= getattr(total, field) * (1 + 1e-12)
            assert getattr(total, field) * (1 - 1e-12) <= added + slack


@pytest.mark.parametrize("name", NAMES)
def test_what_it_costs_and_spans_is_said_without_drawing_a_number(name: str) -> None:
    kind, before = registry.load(name), torch.get_rng_state()
    for causal, params in product((False, True), Variant(name).method.variants):
        if problem := Variant(name, params).problem(device=kind.devices[0], N=256, causal=causal):
            kind.cost(problem, params, FORWARD)
            kind.span(problem, params)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("workload", [FORWARD, BOTH])
@pytest.mark.parametrize("name", [name for name in STATED if Variant(name).method.grows < math.inf])
def test_work_grows_with_the_length_no_faster_than_is_said(name: str, workload: Workload) -> None:
    for causal in (False, True):
        problem = anywhere(name, workload, B=2, N=4096, causal=causal)
        if problem is not None:
            lengths = (problem.model_copy(update={"N": N}) for N in (4096, 16384))
            short, long = (cost_of(name, each, workload) for each in lengths)
            assert long.executed_flops <= 1.001 * Variant(name).method.grows * short.executed_flops


@pytest.mark.parametrize("name", [name for name in STATED if Variant(name).method.steps_alike or Variant(name).method.sums])
def test_a_step_costs_the_same_wherever_it_is(name: str) -> None:
    near, far = (cost_of(name, Problem(N=N, causal=True), STEP) for N in (2**12, 2**20))
    assert near.executed_flops == far.executed_flops
