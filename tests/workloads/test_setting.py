"""From a cell to a call: inputs by seed, gradients of every leaf once, modes as stated; token by token what a step sees."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, cast

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnbench.schema.cell import Cell, Precision, Workload
from attnbench.schema.errand import Job
from attnbench.schema.problem import DType, Problem
from attnbench.workloads.decoding import Sequence, Step, cut, repeated
from attnbench.workloads.prepare import prepare
from attnbench.workloads.setting import Setting, generator
from tests.workloads.conftest import same

SMALL = Problem(B=2, H=2, N=32, D=8)
WIDE = Problem(H=4, kv_heads=2, N=9, D=8, M=6, dtype=DType.FLOAT64, causal=True)
SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=4)


def setting(name: str, *, seed: int = 5, workload: Workload = Workload.FORWARD_BACKWARD, **fields: object) -> Setting:
    problem = SMALL.model_copy(update=fields)
    return prepare(Job(cell=Cell(method=f"gate_cases:{name}", problem=problem, workload=workload), seed=seed))


def test_a_seed_gives_all_methods_and_workloads_the_same_inputs_and_gradient_and_another_seed_others() -> None:
    # Projects draws a parameter of its own first, which must not move its inputs
    right, one, other = setting("Right"), setting("Projects"), setting("Projects", seed=6)
    assert same(right.inputs, one.inputs)
    assert same(right.inputs, setting("Right", workload=Workload.FORWARD).inputs)
    assert right.gradient is not None
    assert one.gradient is not None
    assert torch.equal(right.gradient, one.gradient)
    assert not any(torch.equal(a, b) for a, b in zip(one.inputs, other.inputs, strict=True))
    assert not torch.equal(next(one.method.parameters()), next(other.method.parameters()))


def test_forward_runs_without_autograd_and_forward_backward_with_it(noted: list[bool]) -> None:
    setting("Watches", workload=Workload.FORWARD).call()
    setting("Watches").call()
    assert noted == [False, True]
    # a parameter does not bring autograd into a forward
    assert not torch.as_tensor(setting("Projects", workload=Workload.FORWARD).call()).requires_grad


@pytest.mark.parametrize(("name", "leaves"), [("Right", 3), ("Projects", 4), ("SharedQK", 2)])
def test_every_input_and_parameter_gets_its_gradient_once(name: str, leaves: int) -> None:
    made = setting(name)
    asked, given = made.leaves(), made.call()
    assert isinstance(given, tuple)
    assert [g.shape for g in given[1:]] == [leaf.shape for leaf in asked]
    assert len({id(leaf) for leaf in asked}) == len(asked) == leaves
    assert all(leaf.grad is None for leaf in asked)


def test_a_shared_query_and_key_gets_the_sum_of_both_gradients() -> None:
    made = setting("SharedQK", dtype=DType.FLOAT64)
    given = made.call()
    assert isinstance(given, tuple)
    q, k = (made.inputs[0].detach().clone().requires_grad_() for _ in range(2))
    by_hand = torch.autograd.grad(made.method(q, k, made.inputs[2]), (q, k), made.gradient)
    torch.testing.assert_close(given[1], by_hand[0] + by_hand[1])


def test_padding_reaches_the_forward_as_the_keys_that_each_row_of_its_batch_may_see(noted: list[Tensor | None]) -> None:
    prepare(Job(cell=Cell(method="gate_cases:Hides", problem=SMALL.model_copy(update={"padding": 0.5})), B=4)).call()
    setting("Hides").call()
    mask, none = noted
    assert mask is not None
    assert (mask.shape, mask.dtype) == ((4, 32), torch.bool)
    assert mask.sum(1).tolist() == [28, 24, 20, 16]
    assert all(row[: int(row.sum())].all() for row in mask)
    assert none is None


@pytest.mark.parametrize("precision", list(Precision))
def test_the_matmul_precision_is_the_cell_s(precision: Precision) -> None:
    prepare(Job(cell=Cell(method="gate_cases:Right", problem=SMALL, matmul_precision=precision)))
    assert torch.get_float32_matmul_precision() == precision.value


def job(name: str, workload: Workload, B: int | None = None, new: int = 1, **fields: Any) -> Job:
    cell = Cell(method=f"gate_cases:{name}", problem=WIDE.model_copy(update=fields), workload=workload, new_tokens=new)
    return Job(cell=cell, seed=5, B=B)


def one_step(name: str = "Right", B: int | None = None, **fields: Any) -> Step:
    return cast("Step", prepare(job(name, Workload.DECODE, B, **fields)))


def sequence(name: str = "Right", B: int | None = None, **fields: Any) -> Sequence:
    return cast("Sequence", prepare(job(name, Workload.DECODE_TOTAL, B, **fields)))


@pytest.mark.parametrize("B", [1, 3])
@pytest.mark.parametrize(
    ("workload", "N", "new"),
    [*(("decode", N, 1) for N in (1, 2, 9, 65)), ("verify", 2, 1), ("verify", 9, 4), ("verify", 65, 16)],
)
def test_new_tokens_attend_all_before_them_from_the_same_state_each_call(workload: str, N: int, new: int, B: int) -> None:
    made = cast("Step", prepare(job("Right", Workload(workload), B, new, N=N)))
    prompt = cut(type(made.method).inputs(WIDE.model_copy(update={"N": N}), generator(made.cell, 5)), N - new)
    whole = [torch.cat([p.expand(B, -1, -1, -1), t], dim=2) for p, t in zip(prompt, made.inputs, strict=True)]
    want = made.method.reference(*whole)[:, :, -new:]
    for _ in range(2):
        torch.testing.assert_close(made.call(), want, atol=1e-10, rtol=0)
    assert made.state.n == N - new


def test_a_prompt_gives_what_a_forward_gives_and_the_state_of_all_its_tokens() -> None:
    made = prepare(job("Right", Workload.PREFILL))
    torch.testing.assert_close(made.call(), made.method.reference(*made.inputs), atol=1e-10, rtol=0)
    assert made.state_bytes() == one_step().state_bytes()


@pytest.mark.parametrize("B", [1, 2])
@pytest.mark.parametrize(("N", "different"), [(1, 1), (5, 5), (70, 64)])
def test_n_steps_from_nothing_end_where_the_parallel_form_does(N: int, different: int, B: int) -> None:
    made = sequence(N=N, B=B)
    assert len(made.pool) == different
    tokens = [made.pool[t % different] for t in range(N)]
    q, k, v = (torch.cat(parts, dim=2) for parts in zip(*tokens, strict=True))
    torch.testing.assert_close(made.forward(), made.method.reference(q, k, v)[:, :, -1:], atol=1e-10, rtol=0)


@pytest.mark.parametrize("workload", [Workload.DECODE, Workload.DECODE_TOTAL])
def test_a_token_has_a_number_for_each_level_of_its_sequence_and_keeps_no_other_token_in_memory(workload: Workload) -> None:
    made = prepare(Job(cell=Cell(method="gated.log_linear", problem=WIDE.model_copy(update={"N": 1000}), workload=workload)))
    assert made.inputs[-1].shape == (1, 4, 1, 11)
    for inputs in getattr(made, "pool", made.sets):
        assert [x.untyped_storage().nbytes() for x in inputs] == [x.nbytes for x in inputs]


@pytest.mark.parametrize("prepared", [one_step, sequence])
def test_the_batch_that_was_found_takes_the_place_of_the_problem_s(prepared: Callable[..., Step | Sequence]) -> None:
    made = prepared(B=7, N=11)
    assert made.cell.problem.B == 7
    assert all(x.shape[0] == 7 and not torch.equal(a, b) for x in made.inputs for a, b in pairwise(x)), "tokens of their own"
    o = torch.as_tensor(made.call())
    assert o.shape == (7, 4, 1, 6)
    assert not o.requires_grad
    assert made.state_bytes() == 8 * 7 * 2 * 11 * (8 + 6), "with room for all tokens"


def test_a_shared_query_and_key_stays_one_tensor_when_tokens_are_cut() -> None:
    qk, v = torch.randn(1, 2, 6, 4), torch.randn(1, 2, 6, 4)
    a, b, c = cut((qk, qk, v), 4, start=1)
    assert a is b
    assert torch.equal(a, qk[:, :, 1:4])
    assert c.untyped_storage().data_ptr() == v.untyped_storage().data_ptr()
    made = one_step("SharedQK", kv_heads=4, M=8)
    assert made.inputs[0] is made.inputs[1]


@settings(deadline=None)
@given(st.data(), SIZES, st.integers(1, 5))
def test_a_repeated_state_has_the_rows_and_the_strides_of_the_one(data: st.DataObject, sizes: list[int], B: int) -> None:
    order = data.draw(st.permutations(range(1, len(sizes) + 1)))
    gap = data.draw(st.integers(0, 3))
    # a part of a wider buffer, its dimensions in any order
    wide = torch.randn(1, *(sizes[i - 1] + gap for i in order)).permute(0, *(order.index(i + 1) + 1 for i in range(len(sizes))))
    x = wide[tuple(slice(size) for size in (1, *sizes))]
    many = repeated(x, B)
    assert torch.equal(many, x.repeat(B, *(1 for _ in sizes)))
    assert many.stride()[1:] == x.stride()[1:]
    # rows are apart: what is written to one reaches no other
    many[0].fill_(7)
    assert all(torch.equal(row, x[0]) for row in many[1:])
    assert not (x == 7).any()


def test_states_of_one_tensor_for_all_heads_empty_ones_and_those_with_heads_in_their_batch_are_repeated_too() -> None:
    x = torch.randn(1, 1, 3, 2).expand(1, 4, 3, 2)
    many = repeated(x, 3)
    assert torch.equal(many, x.expand(3, 4, 3, 2))
    assert many.stride(1) == 0
    assert repeated(torch.randn(1, 2, 0, 4), 5).shape == (5, 2, 0, 4)
    folded = torch.randn(4, 3)
    assert torch.equal(repeated(folded, 2), torch.cat([folded, folded]))


class Named(NamedTuple):
    x: Tensor
    n: int


@dataclass
class Nested:
    named: Named
    parts: list[Any]
    nothing: None = None


def test_a_state_keeps_its_form_and_its_plain_numbers() -> None:
    x = torch.randn(1, 2)
    many = repeated(Nested(Named(x, 3), [(x, 4), "words"]), 6)
    assert isinstance(many, Nested)
    assert isinstance(many.named, Named)
    assert (many.named.x.shape, many.named.n, many.nothing) == ((6, 2), 3, None)
    (y, four), words = many.parts
    assert (y.shape, four, words) == ((6, 2), 4, "words")
