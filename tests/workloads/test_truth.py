"""The definition of rows at any length, and what stands in for it where a method has none."""

import pytest
import torch

from attnbench import registry
from attnbench.api import Problem
from attnbench.workloads import truth
from attnbench.workloads.places import Place
from attnbench.workloads.truth import NoTruthError, Truth

PLACE = Place(1, 2, (0, 17, 39))


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


def test_the_method_itself_stays_in_its_dtype() -> None:
    made, _ = truth_of("linear.chunked", kv_heads=4)
    made.rows(PLACE)
    assert all(p.dtype is torch.float32 for p in made.method.parameters())
    assert made.narrow().rows(PLACE).dtype is torch.float32
