"""Decoding over the state of the delta family is the parallel form, one token after the other."""

from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench import Problem, build
from attnbench.api import tensors_of

ALL = ["delta.deltanet", "delta.gated_deltanet", "delta.kda", "delta.rwkv7"]


def method_of(name: str, **shape: Any) -> Any:
    return build(
        name, Problem(**{"B": 2, "H": 2, "D": 6, "M": 5, "N": 40, "causal": True, "dtype": "float64", **shape}), chunk=16
    )


def part(inputs: Any, start: int, stop: int) -> list[Tensor]:
    return [x.detach()[:, :, start:stop] for x in inputs]


@pytest.mark.parametrize("start", [0, 1, 23, 40])
@pytest.mark.parametrize("name", ALL)
def test_steps_go_on_where_the_parallel_form_ends(name: str, start: int, inputs_of: Any) -> None:
    method = method_of(name)
    inputs = inputs_of(method)
    o, state = method.prefill(*part(inputs, 0, start), capacity=40)
    outputs = [o]
    for t in range(start, 40):
        o, state = method.step(*part(inputs, t, t + 1), state=state)
        outputs.append(o)
    torch.testing.assert_close(torch.cat(outputs, dim=2), method.reference(*inputs), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ALL)
def test_the_state_after_steps_is_that_of_the_whole(name: str, inputs_of: Any) -> None:
    method = method_of(name)
    inputs = inputs_of(method)
    _, state = method.prefill(*part(inputs, 0, 30), capacity=40)
    for t in range(30, 40):
        _, state = method.step(*part(inputs, t, t + 1), state=state)
    _, whole = method.prefill(*part(inputs, 0, 40), capacity=40)
    torch.testing.assert_close(tensors_of(state), tensors_of(whole), rtol=0, atol=1e-10)


@pytest.mark.parametrize(("dtype", "kept"), [("bfloat16", 4), ("float16", 4), ("float32", 4), ("float64", 8)])
@pytest.mark.parametrize("name", ALL)
def test_the_state_has_one_size_whatever_the_length(name: str, dtype: str, kept: int, inputs_of: Any) -> None:
    method = method_of(name, dtype=dtype)
    inputs = inputs_of(method)
    for n in (0, 1, 40):
        o, state = method.prefill(*part(inputs, 0, n), capacity=40)
        assert method.state_bytes(state) == kept * 2 * 2 * 6 * 5
        assert o.shape == (2, 2, n, 5)
    token = part(inputs, 0, 1)
    assert method.step(*token, state=state)[0].dtype is o.dtype is inputs[0].dtype


@pytest.mark.parametrize("name", ALL)
def test_a_step_moves_the_state_in_place_and_leaves_its_inputs(name: str, inputs_of: Any) -> None:
    method = method_of(name)
    token = part(inputs_of(method), 7, 8)
    before = [x.clone() for x in token]
    _, state = method.prefill(*part(inputs_of(method), 0, 7), capacity=40)
    memory = [t.data_ptr() for t in tensors_of(state)]
    _, after = method.step(*token, state=state)
    assert [t.data_ptr() for t in tensors_of(after)] == memory
    torch.testing.assert_close(token, before, rtol=0, atol=0)
