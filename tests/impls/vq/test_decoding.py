"""Token by token over a state of one size: what the ring and the table of vq.blockwise hold."""

from importlib import import_module
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbench import Problem
from attnbench.workloads.decoding import cut, prefill, step
from tests.impls.contract.calls import Call, same
from tests.impls.contract.subjects import Variant

work: Any = import_module("attnbench_impls.vq.work")


def called(name: str = "blockwise", N: int = 33, block: int = 4, dtype: str = "float64", **params: Any) -> Call:
    params |= {"codes": 6, **({} if name == "quantised" else {"block": block})}
    problem = Problem(B=2, H=2, N=N, D=8, M=5, causal=True, dtype=dtype)
    return Call(Variant(f"vq.{name}", params), problem)


def after_steps(call: Call, prompt: int) -> Any:
    """The state of all tokens, the first by `prefill`."""
    N = call.problem.N
    _, state = prefill(call.method, cut(call.inputs, prompt), N)
    for t in range(prompt, N):
        _, state = step(call.method, cut(call.inputs, t + 1, start=t), state)
    return state


@given(N=st.integers(1, 40), prompt=st.integers(0, 40), block=st.integers(1, 20))
@settings(max_examples=30, deadline=None)
def test_any_prompt_and_any_block(N: int, prompt: int, block: int) -> None:
    call = called(N=N, block=block, bias="relative")
    same([call.decoded(min(N, prompt))], [call.forward()], 1e-10)
    state = after_steps(call, min(N, prompt))
    assert state.filled == work.filled(N, block)
    assert state.filled + state.folded == N


def test_the_table_holds_all_tokens_that_left_the_window() -> None:
    call = called()
    state, codes, v = after_steps(call, 5), call.choices, call.inputs[2].detach()
    assert codes is not None
    # 33 tokens: 24 and then a ring of 9 would be one too many
    assert (state.folded, state.filled) == (28, 5)
    for s in range(6):
        seen = (codes[:, :, :28] == s).unsqueeze(-1)
        assert torch.equal(state.counts[:, :, s], seen.sum((2, 3)).double())
        mean = (v[:, :, :28] * seen).sum(2) / seen.sum(2).clamp(min=1)
        torch.testing.assert_close(state.means[:, :, s], mean, rtol=0, atol=1e-12)


def test_the_state_has_one_size() -> None:
    call = called(N=60)
    sizes = {call.method.state_bytes(call.method.prefill(*cut(call.inputs, n), capacity=60)[1]) for n in (0, 3, 8, 9, 60)}
    assert len(sizes) == 1


@pytest.mark.parametrize("name", ["blockwise", "gau", "quantised"])
def test_other_codes_may_be_given(name: str) -> None:
    call = called(name)
    choices = torch.randint(0, 6, (2, 2, 33))
    same([call.decoded(14, choices=choices)], [call.forward(choices=choices)], 1e-10)
    same([call.forward(choices=choices)], call.exact(choices=choices)[:1], 1e-10)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_keeps_its_table_in_float32(dtype: str) -> None:
    assert after_steps(called(dtype=dtype), 7).means.dtype is torch.float32
