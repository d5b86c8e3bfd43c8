"""Token by token over a state is the same as all at once, and the state is nobody else's."""

from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench.api import Problem, tensors_of
from attnbench.workloads.decoding import cut, repeated
from tests.impls.contract.calls import Call, mapped, no_worse, same, turned
from tests.impls.contract.method import STEP
from tests.impls.contract.subjects import Variant, each

N = 41
CACHES = ("softmax", "sparse", "context")
"""Families whose states know how many tokens they hold: the same step twice gives the same."""


def problem_of(variant: Variant, **shape: Any) -> Problem | None:
    return variant.problem(STEP, **{"N": N, "causal": True, **shape})


def call_of(variant: Variant, **shape: Any) -> Call:
    """A call whose inputs ask for no gradients."""
    problem = problem_of(variant, **shape)
    assert problem is not None
    call = Call(variant, problem)
    call.inputs, call.g = mapped(call.inputs, Tensor.detach), None
    return call


def prompts(variant: Variant) -> list[int]:
    """No token, one, all, and around the ends of the first parts of the structure."""
    problem = problem_of(variant)
    assert problem is not None
    span = variant.kind.span(problem, variant.params)
    return sorted({n for n in (0, 1, span - 1, span, span + 1, 2 * span, 2 * span + 1, 17, N - 1, N) if 0 <= n <= N})


@pytest.mark.parametrize("variant", each(problem_of))
def test_a_prompt_and_steps_are_the_whole(variant: Variant) -> None:
    # of the oddest shape every third prompt
    for number, problem in enumerate(variant.problems(N, workload=STEP)):
        call = call_of(variant, **problem.model_dump(exclude={"N", "causal"}))
        want = call.exact()[:1]
        same([call.forward()], want, call.off_by)
        for prompt in prompts(variant)[:: 1 + 2 * number]:
            same([call.decoded(prompt)], want, call.off_by)
        if call.choices is not None:
            same([call.decoded(17, choices=call.choices)], want, call.off_by)
        for order in call.orders:
            same([call.decoded(N - 10, turned(call.inputs, *order))], want, call.off_by)
    if problem_of(variant, B=1, H=1, kv_heads=1, D=5, M=5) is not None:
        # one head of one sequence: each token but the first lies at an odd place
        call = call_of(variant, B=1, H=1, kv_heads=1, D=5, M=5)
        same([call.decoded(N - 3)], call.exact()[:1], call.off_by)


@pytest.mark.parametrize("variant", each(problem_of))
def test_tokens_that_are_attended_at_once_are_as_if_decoded_and_can_be_taken_back(variant: Variant) -> None:
    for problem in variant.problems(N, workload=STEP):
        call = call_of(variant, **problem.model_dump(exclude={"N", "causal"}))
        want = call.exact()[0]
        for prompt in (n for n in prompts(variant) if n + 6 <= N):
            right, wrong = (cut(x, prompt + 5, start=prompt) for x in (call.inputs, call.drawn(8)))
            # without an output, and with room for no more
            state = call.method.state_after(*cut(call.inputs, prompt), capacity=prompt + 6)
            call.method.extend(*wrong, state=state)
            o, after = call.method.extend(*right, state=state)
            following, _ = call.method.step(*cut(call.inputs, prompt + 6, start=prompt + 5), state=after)
            same([o, following], want[:, :, prompt : prompt + 6].split((5, 1), dim=2), call.off_by)


@pytest.mark.parametrize("variant", each(problem_of))
def test_a_step_costs_no_accuracy_in_any_dtype(variant: Variant) -> None:
    for dtype in ("float32", "bfloat16", "float16"):
        if problem_of(variant, dtype=dtype) is not None:
            call = call_of(variant, dtype=dtype)
            got = call.decoded(7, choices=call.choices)
            assert got.dtype is call.inputs[-1].dtype
            no_worse([got], [call.results("reference")[0].detach()], call.exact()[:1])


@pytest.mark.parametrize("variant", each(lambda variant: problem_of(variant) and not variant.method.concatenates))
def test_a_step_moves_the_state_in_place_and_leaves_its_inputs(variant: Variant) -> None:
    call = call_of(variant)
    token = cut(call.inputs, 21, start=20)
    before = [x.clone() for x in token]
    _, state = call.method.prefill(*cut(call.inputs, 20), capacity=N)
    memory = [x.data_ptr() for x in tensors_of(state)]
    once, after = call.method.step(*token, state=state)
    assert [x.data_ptr() for x in tensors_of(after)] == memory
    assert all(torch.equal(x, y) for x, y in zip(token, before, strict=True))
    # at the end of a segment the memory moves on, and reflections move what is kept
    if variant.name.startswith(CACHES) and variant.params.get("segment") != 1 and variant.name != "softmax.path":
        twice, again = call.method.step(*token, state=state)
        assert torch.equal(once, twice)
        assert (state.length, after.length, again.length) == (20, 21, 21)


@pytest.mark.parametrize("variant", each(problem_of))
def test_a_prompt_is_copied_and_the_state_of_one_sequence_stands_for_a_batch(variant: Variant) -> None:
    call = call_of(variant, B=1)
    # a state keeps no graph either, of parameters or of inputs
    prompt = mapped(cut(call.inputs, 20), lambda x: x.clone().requires_grad_())
    token = mapped(cut(call.inputs, 21, start=20), Tensor.requires_grad_)
    _, state = call.method.prefill(*prompt, capacity=N)
    with torch.no_grad():
        for x in prompt:
            x.zero_()
    many, _ = call.method.step(*mapped(token, lambda x: x.expand(3, *x.shape[1:])), state=repeated(state, 3))
    one, after = call.method.step(*token, state=state)
    same([one], [call.exact()[0][:, :, 20:21]], call.off_by)
    same([many], [one.expand_as(many)], call.off_by)
    _, later = call.method.extend(*token, state=after)
    assert not any(x.requires_grad for x in tensors_of((state, after, later)))


@pytest.mark.parametrize("variant", each(lambda variant: problem_of(variant) and not variant.method.concatenates))
def test_a_state_has_room_for_its_capacity_and_says_when_it_is_full(variant: Variant) -> None:
    call = call_of(variant)
    o, empty = call.method.prefill(*cut(call.inputs, 0), capacity=5)
    assert o.shape == (2, 4, 0, 8)
    assert o.dtype is call.inputs[-1].dtype
    _, full = call.method.prefill(*cut(call.inputs, 5), capacity=5)
    assert call.method.state_bytes(full) == call.method.state_bytes(empty) > 0
    _, larger = call.method.prefill(*cut(call.inputs, 5), capacity=N)
    if call.method.state_bytes(larger) == call.method.state_bytes(full) and not hasattr(full, "length"):
        return  # of one size whatever the length: never full
    refused = pytest.raises(ValueError, match="token 6 is beyond the capacity of 5")
    with refused:
        call.method.step(*cut(call.inputs, 6, start=5), state=full)
    with refused:
        call.method.prefill(*cut(call.inputs, 6), capacity=5)


@pytest.mark.parametrize("variant", each(lambda variant: problem_of(variant) and variant.method.sums))
def test_a_state_of_sums_is_of_one_size_exact_and_the_same_however_it_was_reached(variant: Variant) -> None:
    call = call_of(variant)
    _, state = call.method.prefill(*cut(call.inputs, 30), capacity=N)
    for t in range(30, N):
        _, state = call.method.step(*cut(call.inputs, t + 1, start=t), state=state)
    _, whole = call.method.prefill(*call.inputs, capacity=N)
    for reached, at_once in zip(sums(state), sums(whole), strict=True):
        torch.testing.assert_close(reached, at_once, rtol=1e-10, atol=1e-10)
    states = [call.method.prefill(*cut(call.inputs, n), capacity=capacity)[1] for n in (0, 1, N) for capacity in (N, 100 * N)]
    assert len({call.method.state_bytes(each) for each in states}) == 1
    for dtype, kept in (("bfloat16", torch.float32), ("float16", torch.float32), ("float64", torch.float64)):
        other = call_of(variant, dtype=dtype)
        # those of high powers of the numbers are in float64 always
        assert {x.dtype for x in sums(other.method.prefill(*cut(other.inputs, 5), capacity=N)[1])} <= {kept, torch.float64}
    if problem_of(variant, kv_heads=2) is not None:
        shared = call_of(variant, kv_heads=2)
        _, half = shared.method.prefill(*shared.inputs, capacity=N)
        assert 2 * shared.method.state_bytes(half) == call.method.state_bytes(whole)


def sums(state: Any) -> list[Tensor]:
    return tensors_of(getattr(state, "sums", state))
