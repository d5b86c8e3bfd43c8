"""Token by token over a state of one size: the same as all at once."""

from importlib import import_module
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnbench import Problem
from attnbench.api import Cell, Workload
from attnbench.workloads.decoding import repeated

blockwise: Any = import_module("attnbench_impls.vq.blockwise")
gau: Any = import_module("attnbench_impls.vq.gau")
quantised: Any = import_module("attnbench_impls.vq.quantised")
work: Any = import_module("attnbench_impls.vq.work")

Blockwise, Gated, Quantised = blockwise.BlockwiseVQ, gau.GatedVQ, quantised.QuantisedSoftmax
METHODS: list[tuple[Any, dict[str, Any]]] = [
    (Blockwise, {"block": 4}),
    (Blockwise, {"block": 4, "bias": "relative"}),
    (Blockwise, {"block": 50}),
    (Gated, {"block": 4}),
    (Quantised, {}),
]


def build(method: Any, N: int = 33, shape: dict[str, Any] | None = None, **params: Any) -> Any:
    problem = Problem(**{"B": 2, "H": 2, "N": N, "D": 8, "M": 5, "dtype": "float64", "causal": True, **(shape or {})})
    made = method(problem, **{"codes": 6, **params}).to(getattr(torch, problem.dtype))
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter)
    return made


def part(inputs: tuple[Tensor, ...], start: int, stop: int) -> list[Tensor]:
    return [x[:, :, start:stop].detach() for x in inputs]


def decode(method: Any, inputs: tuple[Tensor, ...], prompt: int) -> tuple[Tensor, Any]:
    N = inputs[0].shape[2]
    o, state = method.prefill(*part(inputs, 0, prompt), capacity=N)
    outputs = [o]
    for t in range(prompt, N):
        o, state = method.step(*part(inputs, t, t + 1), state=state)
        outputs.append(o)
    return torch.cat(outputs, 2), state


@pytest.mark.parametrize("prompt", [0, 1, 4, 8, 9, 12, 15, 32])
@pytest.mark.parametrize(("method", "params"), METHODS, ids=str)
def test_prompt_and_steps_are_the_whole(method: Any, params: dict[str, Any], prompt: int, inputs_of: Any) -> None:
    made = build(method, **params)
    inputs = inputs_of(made)
    torch.testing.assert_close(decode(made, inputs, prompt)[0], made(*inputs), rtol=0, atol=1e-10)


@given(N=st.integers(1, 40), prompt=st.integers(0, 40), block=st.integers(1, 20))
@settings(max_examples=30, deadline=None)
def test_any_prompt_and_any_block(N: int, prompt: int, block: int) -> None:
    made = build(Blockwise, N, block=block, bias="relative")
    inputs = Blockwise.inputs(made.problem, torch.Generator().manual_seed(N))
    got, state = decode(made, inputs, min(N, prompt))
    torch.testing.assert_close(got, made(*inputs), rtol=0, atol=1e-10)
    assert state.filled == work.filled(N, block)
    assert state.filled + state.folded == N


def test_the_table_holds_all_tokens_that_left_the_window(inputs_of: Any) -> None:
    made = build(Blockwise, block=4)
    inputs = inputs_of(made)
    _, state = decode(made, inputs, 5)
    codes, v = made.choose(*inputs), inputs[2].detach()
    # 33 tokens: 24 and then a ring of 9 would be one too many
    assert (state.folded, state.filled) == (28, 5)
    for s in range(6):
        seen = (codes[:, :, :28] == s).unsqueeze(-1)
        assert torch.equal(state.counts[:, :, s], seen.sum((2, 3)).double())
        mean = (v[:, :, :28] * seen).sum(2) / seen.sum(2).clamp(min=1)
        torch.testing.assert_close(state.means[:, :, s], mean, rtol=0, atol=1e-12)


@pytest.mark.parametrize("prompt", [0, 3, 20, 31])
def test_steps_leave_the_state_that_a_prompt_leaves(prompt: int, inputs_of: Any) -> None:
    made = build(Blockwise, block=4)
    inputs = inputs_of(made)
    _, stepped = decode(made, inputs, prompt)
    _, at_once = made.prefill(*part(inputs, 0, 33), capacity=33)
    torch.testing.assert_close(stepped.means, at_once.means, rtol=0, atol=1e-12)
    assert torch.equal(stepped.counts, at_once.counts)
    for x, y in ((stepped.k, at_once.k), (stepped.v, at_once.v), (stepped.codes, at_once.codes)):
        assert torch.equal(x[:, :, : stepped.filled], y[:, :, : stepped.filled])


def test_the_state_has_one_size(inputs_of: Any) -> None:
    made = build(Blockwise, 60, block=4)
    inputs = inputs_of(made)
    sizes = {made.state_bytes(made.prefill(*part(inputs, 0, n), capacity=60)[1]) for n in (0, 3, 8, 9, 60)}
    costs: Any = import_module("attnbench_impls.vq.decoding_cost")
    assert sizes == {costs.state_bytes(made.problem, made.options)}


@pytest.mark.parametrize(("method", "params"), METHODS, ids=str)
def test_codes_may_be_given(method: Any, params: dict[str, Any], inputs_of: Any) -> None:
    made = build(method, **params)
    inputs = inputs_of(made)
    choices = torch.randint(0, 6, (2, 2, 33))
    o, state = made.prefill(*part(inputs, 0, 14), capacity=33, choices=choices[:, :, :14])
    outputs = [o]
    for t in range(14, 33):
        o, state = made.step(*part(inputs, t, t + 1), state=state, choices=choices[:, :, t : t + 1])
        outputs.append(o)
    torch.testing.assert_close(torch.cat(outputs, 2), made.reference(*inputs, choices=choices), rtol=0, atol=1e-10)


@pytest.mark.parametrize(("method", "params"), METHODS, ids=str)
def test_the_state_of_one_sequence_can_be_repeated(method: Any, params: dict[str, Any], inputs_of: Any) -> None:
    made = build(method, shape={"B": 1}, **params)
    inputs = inputs_of(made)
    _, state = made.prefill(*part(inputs, 0, 32), capacity=33)
    token = part(inputs, 32, 33)
    many = made.step(*(x.expand(3, -1, -1, -1) for x in token), state=repeated(state, 3))[0]
    torch.testing.assert_close(many, made.step(*token, state=state)[0].expand(3, -1, -1, -1))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_keeps_its_table_in_float32(dtype: str, inputs_of: Any) -> None:
    made = build(Blockwise, 60, {"dtype": dtype, "M": 8}, block=4)
    inputs = inputs_of(made)
    got, state = decode(made, inputs, 7)
    assert got.dtype is getattr(torch, dtype)
    assert state.means.dtype is torch.float32
    torch.testing.assert_close(got, made(*inputs).detach(), rtol=0.02, atol=0.02)


def test_decoding_is_causal() -> None:
    cell = Cell(method="x", problem=Problem(N=8), workload=Workload.DECODE)
    assert Blockwise.refusal(cell) == "decoding is causal; set causal: true"
    assert Blockwise.refusal(cell.model_copy(update={"problem": Problem(N=8, causal=True)})) is None


def test_a_cache_says_when_it_is_full(inputs_of: Any) -> None:
    made = build(Quantised)
    inputs = inputs_of(made)
    _, state = made.prefill(*part(inputs, 0, 33), capacity=33)
    with pytest.raises(ValueError, match="token 34 is beyond the capacity of 33 tokens"):
        made.step(*part(inputs, 0, 1), state=state)
