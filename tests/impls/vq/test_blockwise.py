"""Attention over quantised keys: the theorems of its paper, its gradients, and the ring and the table that it decodes with."""

import math
from importlib import import_module
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from attnbench import Problem
from attnbench.workloads.decoding import cut, prefill, step
from tests.impls.contract.calls import Call, same
from tests.impls.contract.subjects import Variant

# by name: installed under another name than that of its folder
codebooks: Any = import_module("attnbench_impls.vq.codebook")
work: Any = import_module("attnbench_impls.vq.work")


def called(N: int, name: str = "blockwise", shape: dict[str, Any] | None = None, **params: Any) -> Call:
    """A small call, of few codes, and parameters that are not at their start."""
    problem = Problem(**{"B": 2, "H": 2, "N": N, "D": 8, "M": 5, "dtype": "float64", "causal": True, **(shape or {})})
    call = Call(Variant(f"vq.{name}", {"codes": 6, **({} if name == "quantised" else {"block": 8}), **params}), problem)
    for parameter in call.method.parameters():
        torch.nn.init.normal_(parameter)
    return call


def theorem_3_7(q: Tensor, k_hat: Tensor, v: Tensor, codes: Tensor, codebook: Tensor, L: int) -> Tensor:
    """Query by query: codes weighted by log counts with the means of their values, and the keys of two blocks."""
    outputs = []
    for i in range(q.shape[0]):
        old, logits, values = max(0, i // L - 1) * L, [], []
        for s in range(len(codebook)):
            with_code = codes[:old] == s
            if count := int(with_code.sum()):
                logits.append(q[i] @ codebook[s] + math.log(count))
                values.append(v[:old][with_code].mean(0))
        for j in range(old, i + 1):
            logits.append(q[i] @ k_hat[j])
            values.append(v[j])
        outputs.append(torch.stack(logits).softmax(0) @ torch.stack(values))
    return torch.stack(outputs)


def theorem_3_4(q: Tensor, v: Tensor, codes: Tensor, codebook: Tensor) -> Tensor:
    """All keys by their codes, weighted by log counts."""
    used = codes.unique()
    counts = torch.stack([(codes == s).sum().double() for s in used])
    means = torch.stack([v[codes == s].mean(0) for s in used])
    return (q @ codebook[used].mT + counts.log()).softmax(-1) @ means


@pytest.mark.parametrize("through_table", [False, True])
def test_it_is_theorem_3_7_with_its_gradients(through_table: bool) -> None:
    call = called(29, gradient_through_table=through_table)
    got, codes, codebook = call.results("reference"), call.choices, call.method.codebook.vectors.double()
    assert codes is not None
    q, k, v = call.inputs
    k_hat = codebooks.rows_of(codebook, codes)
    q, k = (F.rms_norm(x, (8,), eps=1e-6) / 8**0.25 for x in (q, k))
    k_hat = k_hat + k - k.detach()
    rows = [[theorem_3_7(q[b, h], k_hat[b, h], v[b, h], codes[b, h], codebook[h], 8) for h in (0, 1)] for b in (0, 1)]
    want = torch.stack([torch.stack(row) for row in rows])
    # all but that of v, where none goes through the table
    known = 4 if through_table else 3
    same(got[:known], [want, *torch.autograd.grad(want, call.inputs, call.g)][:known], 1e-10)


@pytest.mark.parametrize("name", ["blockwise", "quantised"])
def test_without_a_mask_it_is_theorem_3_4(name: str) -> None:
    call = called(29, name, {"causal": False}, normalise=False)
    q, _, v = (x.detach() for x in call.inputs)
    codes, codebook = call.choices, call.method.codebook.vectors.double()
    assert codes is not None
    rows = [[theorem_3_4(q[b, h] / 8**0.25, v[b, h], codes[b, h], codebook[h]) for h in (0, 1)] for b in (0, 1)]
    same([call.forward()], [torch.stack([torch.stack(row) for row in rows])], 1e-12)


def test_positions_are_seen_up_to_a_block_away() -> None:
    call = called(40, shape={"B": 1, "H": 1}, bias="relative")
    got = call.results("reference")[0][0, 0]
    q, _, v = (x.detach() for x in call.inputs)
    q, at = F.rms_norm(q, (8,), eps=1e-6)[0, 0] / 8**0.25, call.method.position.requires_grad_(False)
    k_hat = codebooks.rows_of(call.method.codebook.vectors.double(), call.choices)[0, 0]
    waves = 1e5 ** (-torch.arange(4.0, dtype=torch.float64) / 4)
    for i in range(40):
        scores = (q[i] + at.u[0] / 8**0.25) @ k_hat[: i + 1].mT
        for j in range(max(0, i - 8), i + 1):
            r = at.w[0] @ torch.cat(((waves * (i - j)).sin(), (waves * (i - j)).cos())) / 8**0.25
            scores = scores + F.one_hot(torch.tensor(j), i + 1) * ((q[i] + at.v[0] / 8**0.25) @ r)
        same([got[i]], [scores.softmax(0) @ v[0, 0, : i + 1]], 1e-10)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("normalise", [False, True])
def test_with_the_keys_for_codes_it_is_softmax_attention(normalise: bool, causal: bool) -> None:
    call = called(40, shape={"B": 1, "causal": causal}, codes=40, normalise=normalise)
    method, (q, k, v) = call.method, (x.detach() for x in call.inputs)
    method.codebook = codebooks.Codebook(method.normalised(k)[0])
    call.choices = method.choose(q, k, v)
    assert torch.equal(call.choices, torch.arange(40).expand(1, 2, 40))
    same([call.forward()], [method.exact(q, k, v)], 1e-12)
    if not normalise:
        same([call.forward()], [F.scaled_dot_product_attention(q, k, v, is_causal=causal)], 1e-12)


def test_codes_that_no_key_has_are_not_seen_however_many_and_scores_of_any_size_are_stable() -> None:
    # more of them than a kernel takes keys at a time, and the first ones
    call = called(40, shape={"B": 1}, codes=1400)
    far = call.method.codebook.vectors.clone()
    far[:, :1300] = 1e3
    call.method.codebook = codebooks.Codebook(far)
    call.choices = call.method.choose(*call.inputs)
    assert int(call.choices.min()) >= 1300
    same([call.forward()], call.exact()[:1], 1e-12)
    call = called(60, tau=1e-3)
    same([call.forward()], call.exact()[:1], 1e-10)


def gradients(since: int, **params: Any) -> tuple[Tensor, ...]:
    call = called(64, **params)
    return torch.autograd.grad(call.method(*call.inputs)[:, :, since:].square().sum(), call.inputs)


def test_keys_of_the_window_have_gradients_in_the_table_only_values_do_and_codes_are_no_parameters() -> None:
    _, _, dv = gradients(48, gradient_through_table=False)
    # the first query that is differentiated is of block 6
    assert not dv[:, :, :40].any()
    assert (dv[:, :, 40:].abs().amax(-1) > 0).all()
    _, dk, dv = gradients(0, shape={"causal": False})
    assert not dk.any()
    assert (dv.abs().amax(-1) > 0).all()
    assert list(called(8).method.parameters()) == []
    named = {name for name, _ in called(8, bias="relative").method.named_parameters()}
    assert named == {"position.u", "position.v", "position.w"}


def test_a_gate_of_another_shape_is_refused_in_words() -> None:
    call = called(8, "gau")
    q, k, v, g = call.inputs
    with pytest.raises(ValueError, match=r"g \[2, 2, 8, 1\]: must have the shape of the output, \[2, 2, 8, 5\]"):
        call.forward(q, k, v, g[..., :1])


def after_steps(call: Call, prompt: int) -> Any:
    """The state of all tokens, the first by `prefill`."""
    N = call.problem.N
    _, state = prefill(call.method, cut(call.inputs, prompt), N)
    for t in range(prompt, N):
        _, state = step(call.method, cut(call.inputs, t + 1, start=t), state)
    return state


@pytest.mark.parametrize("N", [1, 4, 8, 9, 33])
def test_the_table_holds_all_tokens_that_left_the_window_and_the_state_has_one_size(N: int) -> None:
    call = called(N, block=4)
    state, codes, v = after_steps(call, min(N, 5)), call.choices, call.inputs[2].detach()
    assert codes is not None
    # of 33 tokens 24 and then a ring of 9 would be one too many
    folded = {1: 0, 4: 0, 8: 0, 9: 4, 33: 28}[N]
    assert (state.folded, state.filled, work.filled(N, 4)) == (folded, N - folded, N - folded)
    for s in range(6):
        seen = (codes[:, :, :folded] == s).unsqueeze(-1)
        assert torch.equal(state.counts[:, :, s], seen.sum((2, 3)).double())
        mean = (v[:, :, :folded] * seen).sum(2) / seen.sum(2).clamp(min=1)
        torch.testing.assert_close(state.means[:, :, s], mean, rtol=0, atol=1e-12)
    assert call.method.state_bytes(state) == call.method.state_bytes(call.method.prefill(*cut(call.inputs, 0), capacity=60)[1])


@pytest.mark.parametrize("name", ["blockwise", "gau", "quantised"])
def test_other_codes_may_be_given(name: str) -> None:
    call, choices = called(33, name), torch.randint(0, 6, (2, 2, 33))
    same([call.decoded(14, choices=choices)], [call.forward(choices=choices)], 1e-10)
    same([call.forward(choices=choices)], call.exact(choices=choices)[:1], 1e-10)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_keeps_its_table_in_float32(dtype: str) -> None:
    assert after_steps(called(33, shape={"dtype": dtype}, block=4), 7).means.dtype is torch.float32
