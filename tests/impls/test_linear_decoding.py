"""Decoding is the parallel form, one token or one part after the other."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnbench import Problem, build
from attnbench.api import Cell, Workload
from attnbench.registry import load

MAPS = ["elu_plus_one", "relu", "squared_relu", "cosine", "quadratic", "favor", "efficient"]
CAUSAL = ["linear.chunked", "linear.recurrent", "linear.naive_cumsum"]


def method_of(name: str, feature_map: str = "elu_plus_one", **shape: Any) -> Any:
    problem = Problem(**{"B": 2, "H": 2, "D": 6, "N": 40, "causal": True, "dtype": "float64", **shape})
    params = {"features": 20} if feature_map == "favor" else {}
    return build(name, problem, feature_map=feature_map, **params).to(getattr(torch, problem.dtype))


def part(inputs: Any, start: int, stop: int) -> list[Tensor]:
    return [x.detach()[:, :, start:stop] for x in inputs]


def decode(method: Any, inputs: Any, start: int) -> Tensor:
    N = inputs[0].shape[2]
    o, state = method.prefill(*part(inputs, 0, start), capacity=N)
    outputs = [o]
    for t in range(start, N):
        o, state = method.step(*part(inputs, t, t + 1), state=state)
        outputs.append(o)
    return torch.cat(outputs, dim=2)


@pytest.mark.parametrize("start", [0, 1, 23])
@pytest.mark.parametrize("feature_map", MAPS)
def test_token_by_token_is_the_definition(feature_map: str, start: int, inputs_of: Any) -> None:
    method = method_of("linear.recurrent", feature_map, M=5)
    inputs = inputs_of(method)
    torch.testing.assert_close(decode(method, inputs, start), method.reference(*inputs), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", CAUSAL)
def test_all_causal_forms_decode(name: str, inputs_of: Any) -> None:
    method = method_of(name)
    inputs = inputs_of(method)
    torch.testing.assert_close(decode(method, inputs, 17), method(*inputs), rtol=0, atol=1e-10)


@settings(max_examples=40, deadline=None)
@given(feature_map=st.sampled_from(MAPS), cuts=st.tuples(st.integers(0, 150), st.integers(0, 150)), N=st.integers(1, 150))
def test_a_sequence_in_parts_that_carry_the_state_on_is_the_whole(feature_map: str, cuts: tuple[int, int], N: int) -> None:
    method = method_of("linear.recurrent" if feature_map == "efficient" else "linear.chunked", feature_map, N=N, M=4)
    inputs = type(method).inputs(method.problem, torch.Generator().manual_seed(N))
    a, b = sorted(min(c, N) for c in cuts)
    first, state = method.prefill(*part(inputs, 0, a), capacity=N)
    second, state = method.extend(*part(inputs, a, b), state)
    third, state = method.extend(*part(inputs, b, N), state)
    torch.testing.assert_close(torch.cat([first, second, third], dim=2), method(*inputs), rtol=0, atol=1e-10)
    _, whole = method.prefill(*inputs, capacity=N)
    torch.testing.assert_close(state.sums, whole.sums, rtol=0, atol=1e-10)


def test_the_state_has_one_size_whatever_the_length(inputs_of: Any) -> None:
    method = method_of("linear.chunked", dtype="float32", M=5)
    inputs = inputs_of(method)
    sizes = {method.state_bytes(method.prefill(*part(inputs, 0, n), capacity=40)[1]) for n in (0, 1, 40)}
    # D rows of M values and a one, and the row of the next token, for each sample and head
    assert sizes == {4 * 2 * 2 * (6 + 1) * (5 + 1)}


@pytest.mark.parametrize(("dtype", "kept"), [("bfloat16", "float32"), ("float16", "float32"), ("float64", "float64")])
def test_the_sums_are_at_least_float32(dtype: str, kept: str, inputs_of: Any) -> None:
    method = method_of("linear.chunked", dtype=dtype)
    inputs = inputs_of(method)
    o, state = method.prefill(*part(inputs, 0, 5), capacity=40)
    after, state = method.step(*part(inputs, 5, 6), state=state)
    assert state.sums.dtype == getattr(torch, kept)
    assert o.dtype == after.dtype == getattr(torch, dtype)


def test_a_step_writes_in_place_and_leaves_its_inputs_alone(inputs_of: Any) -> None:
    method = method_of("linear.chunked", "favor")
    inputs = inputs_of(method)
    _, state = method.prefill(*part(inputs, 0, 5), capacity=40)
    token = [x.contiguous() for x in part(inputs, 5, 6)]
    before = [x.clone() for x in token]
    _, after = method.step(*token, state=state)
    assert after is state
    assert all(torch.equal(a, b) for a, b in zip(token, before, strict=True))


def test_tokens_may_lie_in_memory_in_any_order(inputs_of: Any) -> None:
    method = method_of("linear.chunked")
    inputs = inputs_of(method)
    swapped = [x.detach().transpose(1, 2).contiguous().transpose(1, 2) for x in inputs]
    assert torch.equal(decode(method, swapped, 10), decode(method, inputs, 10))


def test_shared_heads_of_keys_have_one_state(inputs_of: Any) -> None:
    for feature_map in ("elu_plus_one", "favor", "efficient"):
        method = method_of("linear.naive_cumsum", feature_map, H=4, kv_heads=2)
        inputs = inputs_of(method)
        torch.testing.assert_close(decode(method, inputs, 9), method.reference(*inputs), rtol=0, atol=1e-10)
        assert method.prefill(*part(inputs, 0, 9), capacity=40)[1].sums.shape[0] == 2 * 2


def test_a_long_sequence_of_small_steps_does_not_drift(inputs_of: Any) -> None:
    method = method_of("linear.recurrent", B=1, H=1, N=2000, dtype="float32")
    inputs = inputs_of(method)
    want = method.reference(*(x.detach().double() for x in inputs))
    torch.testing.assert_close(decode(method, inputs, 0).double(), want, rtol=0, atol=1e-5)


def test_the_form_without_a_mask_refuses_to_decode() -> None:
    for causal in (True, False):
        cell = Cell(method="linear.full", problem=Problem(N=8, causal=causal), workload=Workload.DECODE)
        assert load("linear.full").refusal(cell) is not None
    assert "linear.chunked" in str(load("linear.full").why_not(cell))
