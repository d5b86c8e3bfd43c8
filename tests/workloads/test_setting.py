"""From a cell to a call: inputs by seed, gradients of every leaf once, torch's modes as the cell states them."""

import pytest
import torch

from attnbench import registry
from attnbench.schema.cell import Cell, Precision, Workload, draw_seed
from attnbench.schema.errand import Job
from attnbench.schema.problem import DType, Problem
from attnbench.workloads.prepare import prepare
from attnbench.workloads.setting import Setting

SMALL = Problem(B=2, H=2, N=32, D=8)


def setting(name: str, *, seed: int = 5, workload: Workload = Workload.FORWARD_BACKWARD, **fields: object) -> Setting:
    problem = SMALL.model_copy(update=fields)
    return prepare(Job(cell=Cell(method=f"gate_cases:{name}", problem=problem, workload=workload), seed=seed))


def same(a: tuple[torch.Tensor, ...], b: tuple[torch.Tensor, ...]) -> bool:
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def test_two_methods_of_a_block_get_the_same_inputs_and_gradient() -> None:
    # Projects draws a parameter of its own first, which must not move its inputs
    right, projects = setting("Right"), setting("Projects")
    assert same(right.inputs, projects.inputs)
    assert right.gradient is not None
    assert projects.gradient is not None
    assert torch.equal(right.gradient, projects.gradient)


def test_forward_has_the_inputs_of_forward_and_backward() -> None:
    assert same(setting("Right").inputs, setting("Right", workload=Workload.FORWARD).inputs)


def test_another_seed_draws_other_inputs_and_other_parameters() -> None:
    one, other = setting("Projects", seed=5), setting("Projects", seed=6)
    assert not any(torch.equal(a, b) for a, b in zip(one.inputs, other.inputs, strict=True))
    assert not torch.equal(next(one.method.parameters()), next(other.method.parameters()))


def test_replicates_have_seeds_of_their_own_and_methods_share_them() -> None:
    a, b = (Cell(method=name, problem=SMALL) for name in ("gate_cases:Right", "gate_cases:Projects"))
    seeds = [draw_seed(0, a, replicate) for replicate in range(20)]
    assert len(set(seeds)) == 20
    assert seeds == [draw_seed(0, b, replicate) for replicate in range(20)]


def test_forward_runs_without_autograd_and_forward_backward_with_it() -> None:
    calls = registry.load("gate_cases:Watches").__dict__["gradients"]
    calls.clear()
    setting("Watches", workload=Workload.FORWARD).call()
    setting("Watches").call()
    assert calls == [False, True]
    # a parameter does not bring autograd into a forward
    assert not torch.as_tensor(setting("Projects", workload=Workload.FORWARD).call()).requires_grad


@pytest.mark.parametrize(("name", "leaves"), [("Right", 3), ("Projects", 4), ("SharedQK", 2)])
def test_every_input_and_parameter_gets_its_gradient_once(name: str, leaves: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[torch.Tensor]] = []
    grad = torch.autograd.grad

    def spy(outputs: torch.Tensor, inputs: list[torch.Tensor], gradients: torch.Tensor) -> tuple[torch.Tensor, ...]:
        asked.append(inputs)
        return grad(outputs, inputs, gradients)

    monkeypatch.setattr(torch.autograd, "grad", spy)
    made = setting(name)
    given = made.call()
    assert isinstance(given, tuple)
    _, *gradients = given
    assert [g.shape for g in gradients] == [leaf.shape for leaf in asked[0]]
    assert len({id(leaf) for leaf in asked[0]}) == len(asked[0]) == leaves
    assert all(leaf.grad is None for leaf in asked[0])


def test_a_shared_query_and_key_gets_the_sum_of_both_gradients() -> None:
    made = setting("SharedQK", dtype=DType.FLOAT64)
    given = made.call()
    assert isinstance(given, tuple)
    _, *gradients = given
    q, k = (made.inputs[0].detach().clone().requires_grad_() for _ in range(2))
    by_hand = torch.autograd.grad(made.method(q, k, made.inputs[2]), (q, k), made.gradient)
    torch.testing.assert_close(gradients[0], by_hand[0] + by_hand[1])


def test_padding_reaches_the_forward_as_the_keys_that_each_row_may_see() -> None:
    seen = registry.load("gate_cases:Hides").__dict__["seen"]
    seen.clear()
    setting("Hides", B=4, padding=0.5, workload=Workload.FORWARD).call()
    (mask,) = seen
    assert (mask.shape, mask.dtype) == ((4, 32), torch.bool)
    assert mask.sum(1).tolist() == [28, 24, 20, 16]
    assert all(row[: int(row.sum())].all() for row in mask)


def test_without_padding_there_is_no_mask() -> None:
    seen = registry.load("gate_cases:Hides").__dict__["seen"]
    seen.clear()
    setting("Hides").call()
    assert seen == [None]


def test_the_mask_has_a_row_for_each_of_the_batch_that_was_found() -> None:
    cell = Cell(method="gate_cases:Hides", problem=SMALL.model_copy(update={"padding": 0.5}))
    made = prepare(Job(cell=cell, B=5))
    assert made.key_mask is not None
    assert len(made.key_mask) == 5


@pytest.mark.parametrize("precision", list(Precision))
def test_the_matmul_precision_is_the_cell_s(precision: Precision) -> None:
    prepare(Job(cell=Cell(method="gate_cases:Right", problem=SMALL, matmul_precision=precision)))
    assert torch.get_float32_matmul_precision() == precision.value


def test_parameters_have_the_dtype_of_the_problem() -> None:
    made = setting("Projects", dtype=DType.BFLOAT16)
    assert {p.dtype for p in made.method.parameters()} == {t.dtype for t in made.inputs} == {torch.bfloat16}
