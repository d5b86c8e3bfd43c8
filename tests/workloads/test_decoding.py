"""Token by token: what a step sees, what N of them give, and what is kept between them, for one sequence and for many."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, cast

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnbench.api import tensors_of
from attnbench.schema.cell import Batch, Cell, Workload
from attnbench.schema.errand import Job
from attnbench.schema.problem import DType, Problem
from attnbench.workloads.decoding import Sequence, Step, cut, repeated
from attnbench.workloads.prepare import prepare
from attnbench.workloads.setting import generator

WIDE = Problem(H=4, kv_heads=2, N=9, D=8, M=6, dtype=DType.FLOAT64, causal=True)


SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=4)


def job(name: str, workload: Workload, B: int | None = None, **fields: object) -> Job:
    cell = Cell(method=f"gate_cases:{name}", problem=WIDE.model_copy(update=fields), workload=workload)
    return Job(cell=cell, seed=5, B=B)


def one_step(name: str = "Right", B: int | None = None, **fields: object) -> Step:
    return cast("Step", prepare(job(name, Workload.DECODE, B, **fields)))


def sequence(name: str = "Right", B: int | None = None, **fields: object) -> Sequence:
    return cast("Sequence", prepare(job(name, Workload.DECODE_TOTAL, B, **fields)))


def whole(prompt: tuple[Tensor, ...], token: tuple[Tensor, ...]) -> list[Tensor]:
    """The prompt of one sequence before each row's own token."""
    return [torch.cat([p.expand(len(t), -1, -1, -1), t], dim=2) for p, t in zip(prompt, token, strict=True)]


@pytest.mark.parametrize("B", [1, 3])
@pytest.mark.parametrize("N", [1, 2, 9, 65])
def test_a_step_at_n_attends_n_keys_the_last_its_own(N: int, B: int) -> None:
    made = one_step(N=N, B=B)
    prompt = cut(type(made.method).inputs(WIDE.model_copy(update={"N": N}), generator(made.cell, 5)), N - 1)
    want = made.method.reference(*whole(prompt, made.inputs))[:, :, -1:]
    torch.testing.assert_close(made.forward(), want, atol=1e-10, rtol=0)


@pytest.mark.parametrize("B", [1, 3])
@pytest.mark.parametrize(("N", "new"), [(2, 1), (9, 4), (65, 16)])
def test_tokens_that_are_verified_attend_all_before_them_and_leave_the_state(N: int, new: int, B: int) -> None:
    cell = job("Right", Workload.VERIFY, N=N, B=B).cell.model_copy(update={"new_tokens": new})
    made = cast("Step", prepare(Job(cell=cell, seed=5)))
    prompt = cut(type(made.method).inputs(WIDE.model_copy(update={"N": N}), generator(made.cell, 5)), N - new)
    want = made.method.reference(*whole(prompt, made.inputs))[:, :, -new:]
    for _ in range(2):
        torch.testing.assert_close(made.call(), want, atol=1e-10, rtol=0)
    assert made.state.n == N - new


def test_a_prompt_gives_what_a_forward_gives_and_the_state_of_all_its_tokens() -> None:
    made = prepare(job("Right", Workload.PREFILL))
    torch.testing.assert_close(made.call(), made.method.reference(*made.inputs), atol=1e-10, rtol=0)
    assert made.state_bytes() == one_step().state_bytes()


def test_every_row_has_a_token_of_its_own() -> None:
    made = one_step(B=3)
    assert all(x.shape[0] == 3 and not torch.equal(a, b) for x in made.inputs for a, b in pairwise(x))


def test_every_call_of_a_step_starts_from_the_same_state() -> None:
    made = one_step()
    first = made.call()
    assert torch.equal(torch.as_tensor(first), torch.as_tensor(made.call()))
    assert made.state.n == WIDE.N - 1


@pytest.mark.parametrize("B", [1, 2])
@pytest.mark.parametrize("N", [1, 5, 70])
def test_n_steps_from_nothing_end_where_the_parallel_form_does(N: int, B: int) -> None:
    made = sequence(N=N, B=B)
    tokens = [made.pool[t % len(made.pool)] for t in range(N)]
    q, k, v = (torch.cat(parts, dim=2) for parts in zip(*tokens, strict=True))
    torch.testing.assert_close(made.forward(), made.method.reference(q, k, v)[:, :, -1:], atol=1e-10, rtol=0)


def test_a_long_sequence_is_made_of_sixty_four_tokens() -> None:
    assert (len(sequence(N=70).pool), len(sequence(N=5).pool)) == (64, 5)


@pytest.mark.parametrize("prepared", [one_step, sequence])
def test_the_batch_that_was_found_takes_the_place_of_the_problem_s(prepared: Callable[..., Step | Sequence]) -> None:
    made = prepared(B=7)
    assert made.cell.problem.B == 7
    o = torch.as_tensor(made.call())
    assert o.shape == (7, 4, 1, 6)
    assert not o.requires_grad


@pytest.mark.parametrize("prepared", [one_step, sequence])
def test_the_state_is_counted_with_room_for_all_tokens(prepared: Callable[..., Step | Sequence]) -> None:
    made = prepared(B=3, N=11)
    assert made.state_bytes() == 8 * 3 * 2 * 11 * (8 + 6)


def test_what_keeps_no_state_counts_none() -> None:
    assert prepare(job("Right", Workload.FORWARD)).state_bytes() is None


def test_whatever_a_step_raises_is_raised() -> None:
    with pytest.raises(RuntimeError, match="no kernel for one token"):
        sequence("StumblesInAStep").call()


def test_a_tensor_given_twice_stays_one_when_tokens_are_cut() -> None:
    qk, v = torch.randn(1, 2, 6, 4), torch.randn(1, 2, 6, 4)
    a, b, c = cut((qk, qk, v), 4, start=1)
    assert a is b
    assert torch.equal(a, qk[:, :, 1:4])
    assert c.untyped_storage().data_ptr() == v.untyped_storage().data_ptr()


def test_a_shared_query_and_key_is_one_tensor_in_a_step() -> None:
    made = one_step("SharedQK", kv_heads=4, M=8)
    assert made.inputs[0] is made.inputs[1]


def test_the_state_of_many_rows_is_the_one_a_batch_of_the_same_prompts_has() -> None:
    many, one = one_step(B=3), one_step(B=1)
    prompt = cut(type(one.method).inputs(WIDE, generator(one.cell, 5)), WIDE.N - 1)
    q, k, v = (x.expand(3, -1, -1, -1) for x in prompt)
    _, state = many.method.prefill(q, k, v, capacity=WIDE.N)
    assert all(torch.equal(a, b) for a, b in zip(tensors_of(many.state), tensors_of(state), strict=True))
    assert many.state.n == state.n


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


def test_a_state_that_is_one_tensor_for_all_heads_stays_so() -> None:
    x = torch.randn(1, 1, 3, 2).expand(1, 4, 3, 2)
    many = repeated(x, 3)
    assert torch.equal(many, x.expand(3, 4, 3, 2))
    assert many.stride(1) == 0


def test_an_empty_state_and_one_with_heads_in_its_batch_are_repeated_too() -> None:
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


@pytest.mark.parametrize("workload", [Workload.DECODE, Workload.FORWARD])
def test_a_cell_whose_batch_is_searched_for_is_prepared_like_any_other(workload: Workload) -> None:
    asked = job("Right", workload, B=3)
    searched = asked.model_copy(update={"cell": asked.cell.model_copy(update={"batch": Batch.LARGEST})})
    o = torch.as_tensor(prepare(searched).call())
    assert len(o) == 3
    assert torch.equal(o, torch.as_tensor(prepare(asked).call()))
