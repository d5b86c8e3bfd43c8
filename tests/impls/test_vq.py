"""Attention over quantised keys: the theorems of its paper, the ring and the table of a state, and how codebooks learn."""

import copy
import math
from importlib import import_module
from itertools import product
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnbench import Problem
from attnbench.workloads.decoding import cut
from tests.impls.contract.calls import Call, same
from tests.impls.contract.subjects import Variant

# by name: installed under another name than that of its folder
codebooks: Any = import_module("attnbench_impls.vq.codebook")
tables: Any = import_module("attnbench_impls.vq.eager.tables")
work: Any = import_module("attnbench_impls.vq.work")
Codebook = codebooks.Codebook


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
    method.codebook = Codebook(method.normalised(k)[0])
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
    call.method.codebook = Codebook(far)
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
    _, state = call.method.prefill(*cut(call.inputs, prompt), capacity=N)
    for t in range(prompt, N):
        _, state = call.method.step(*cut(call.inputs, t + 1, start=t), state=state)
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


def keys(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def book(H: int = 2, S: int = 5, D: int = 4) -> Any:
    return Codebook(keys(H, S, D))


def distance(k: Tensor, codebook: Any) -> float:
    """The mean square, to the nearest codes."""
    return float((k - codebook.lookup(codebook.assign(k), k.dtype)).square().mean())


@given(
    B=st.integers(1, 3), H=st.integers(1, 3), N=st.integers(1, 40), S=st.integers(1, 20), room=st.sampled_from([1, 100, 2**20])
)
@settings(max_examples=40, deadline=None)
def test_each_key_gets_the_nearest_code(B: int, H: int, N: int, S: int, room: int) -> None:
    codebook, k = book(H, S), keys(B, H, N, 4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codebooks, "DISTANCES", room)
        codes = codebook.assign(k)
    assert torch.equal(codes, (k.unsqueeze(3) - codebook.vectors.unsqueeze(1)).square().sum(-1).argmin(-1))
    assert torch.equal(codebook.lookup(codes)[-1, -1, -1], codebook.vectors[-1, codes[-1, -1, -1]])


def test_codes_of_half_precision_are_chosen_in_float32_and_never_rounded() -> None:
    codebook, k = Codebook(torch.randn(1, 300, 16)), torch.randn(1, 1, 500, 16).bfloat16()
    vectors, codes = codebook.vectors, codebook.assign(k.float())
    assert torch.equal(codebook.assign(k), codes)
    assert torch.equal(codebook.bfloat16().assign(k), codes)
    assert torch.equal(codebook.half().double().vectors, vectors)


def test_quantised_keys_are_codes_in_value_and_keys_in_gradient() -> None:
    codebook, k = book(), keys(3, 2, 7, 4).requires_grad_()
    k_hat, codes = codebook.quantise(k)
    assert torch.equal(k_hat, codebook.lookup(codes))
    g = keys(3, 2, 7, 4)
    assert torch.equal(torch.autograd.grad(k_hat, k, g)[0], g)


def test_the_moving_average_is_that_of_sums_and_of_counts_and_may_be_taken_in_two_halves() -> None:
    codebook, k = book(), keys(4, 2, 30, 4)
    before, halves, codes = copy.deepcopy(codebook), copy.deepcopy(codebook), codebook.assign(k)
    without_memory = copy.deepcopy(codebook)
    codebook.update(k, codes)
    without_memory.update(k, codes, gamma=0.0)
    for h, s in product(range(2), range(5)):
        mine = k[:, h][codes[:, h] == s]
        torch.testing.assert_close(codebook.sums[h, s], 0.99 * before.sums[h, s] + 0.01 * mine.sum(0))
        torch.testing.assert_close(codebook.counts[h, s], 0.99 * before.counts[h, s] + 0.01 * len(mine))
        # a step of k-means
        torch.testing.assert_close(without_memory.vectors[h, s], mine.mean(0), rtol=0, atol=1e-12)
    first, second = (halves.totals(k[part], codes[part]) for part in (slice(0, 2), slice(2, 4)))
    assert torch.equal(first[1].sum(1), torch.full((2,), 60.0).double())
    halves.move((first[0] + second[0], first[1] + second[1]))
    torch.testing.assert_close(halves.vectors, codebook.vectors, rtol=0, atol=1e-14)
    with pytest.raises(ValueError, match=r"gamma=1\.5: must lie between 0 and 1"):
        codebook.update(k, codes, gamma=1.5)


def test_a_code_that_is_hardly_used_is_divided_by_a_hundredth_and_an_unused_one_stays_where_it_is() -> None:
    codebook = Codebook(torch.ones(1, 1, 2))
    codebook.counts.fill_(1e-4)
    torch.testing.assert_close(codebook.vectors, torch.full((1, 1, 2), 100.0))
    codebook, k = Codebook(torch.tensor([[[0.0, 0.0], [9.0, 9.0]]])), torch.randn(1, 1, 20, 2)
    for _ in range(10):
        codebook.update(k, codebook.assign(k))
    torch.testing.assert_close(codebook.vectors[0, 1], torch.tensor([9.0, 9.0]))


def test_the_commitment_loss_is_the_mean_over_tokens_of_the_sum_over_heads() -> None:
    codebook, k = book(), keys(3, 2, 6, 4).requires_grad_()
    codes = codebook.assign(k)
    loss, off = codebook.commit_loss(k, codes), k.detach().clone()
    for b, h, t in product(range(3), range(2), range(6)):
        off[b, h, t] -= codebook.vectors[h, codes[b, h, t]]
    torch.testing.assert_close(loss, off.square().sum() / 18, rtol=1e-12, atol=0)
    torch.testing.assert_close(torch.autograd.grad(loss, k)[0], 2 * off / 18, rtol=0, atol=1e-12)


def test_codes_find_the_centres_of_keys_that_lie_around_some() -> None:
    centres = 10 * torch.eye(4)[:, :2] + torch.tensor([[0.0, 0], [0, 0], [-10, -10], [10, 10]])
    codebook = Codebook.drawn(1, 16, 2)
    codebook.fit(centres[torch.randint(4, (3, 1, 50))] + 0.01 * torch.randn(3, 1, 50, 2))
    assert torch.cdist(centres, codebook.vectors[0]).amin(1).max() < 0.1


@pytest.mark.parametrize("keys", [5, 32])
def test_codes_are_the_keys_where_those_are_no_more_and_others_stay_where_they_were(keys: int) -> None:
    k, codebook = torch.randn(1, 2, keys, 8), Codebook.drawn(2, 32, 8)
    before = codebook.vectors.clone()
    codebook.fit(k)
    assert distance(k, codebook) < 1e-12
    assert torch.equal(codebook.vectors[:, keys:], before[:, keys:])
    assert (codebook.counts >= 1).all()


def test_what_was_trained_before_is_fitted_from_the_keys_alone() -> None:
    k, trained, fresh = torch.randn(2, 1, 64, 8), Codebook.drawn(1, 8, 8), Codebook.drawn(1, 8, 8)
    for _ in range(5):
        trained.update(k, trained.assign(k), gamma=0.5)
    for codebook in (trained, fresh):
        torch.manual_seed(3)
        codebook.fit(k)
    torch.testing.assert_close(trained.vectors, fresh.vectors)


@pytest.mark.parametrize("name", ["quantised", "blockwise", "gau"])
def test_a_method_adapts_to_keys_as_they_enter_the_scores(name: str) -> None:
    call = called(64, name, {"B": 4, "dtype": "float32"}, codes=16)
    method, k = call.method, call.method.normalised(call.inputs[1].detach())
    before = distance(k, method.codebook)
    method.adapt(*call.inputs)
    assert distance(k, method.codebook) < 0.7 * before
    assert {x.dtype for x in method.codebook.buffers()} == {torch.float32}
    assert call.forward().isfinite().all()


@pytest.mark.parametrize("reduction", ["serial", "matmul", "scan"])
def test_means_of_large_values_lose_nothing_with_the_length(reduction: str) -> None:
    # sums of these would pass the largest float16, and in bfloat16 stop growing
    v, codes = torch.full((1, 4096, 1), 60000.0, dtype=torch.float16), torch.zeros(1, 4096, dtype=torch.int64)
    means, _ = tables.running_tables(v, codes, 1, 64, reduction)
    torch.testing.assert_close(means, torch.full_like(means, 60000.0), rtol=1e-5, atol=0)
