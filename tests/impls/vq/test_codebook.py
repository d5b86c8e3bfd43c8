"""Codebooks: the nearest code, moving averages that are k-means, fitting to keys, and a loss that draws keys to their codes."""

import copy
from importlib import import_module
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnbench import Problem, build

module: Any = import_module("attnbench_impls.vq.codebook")
tables: Any = import_module("attnbench_impls.vq.eager.tables")
Codebook = module.Codebook


def keys(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def book(H: int = 2, S: int = 5, D: int = 4) -> Any:
    return Codebook(keys(H, S, D))


def distance(k: Tensor, codebook: Any, codes: Tensor | None = None) -> float:
    """The mean square, to the nearest codes where none are given."""
    return float((k - codebook.lookup(codebook.assign(k) if codes is None else codes, k.dtype)).square().mean())


@given(
    B=st.integers(1, 3), H=st.integers(1, 3), N=st.integers(1, 40), S=st.integers(1, 20), room=st.sampled_from([1, 100, 2**20])
)
@settings(max_examples=40, deadline=None)
def test_each_key_gets_the_nearest_code(B: int, H: int, N: int, S: int, room: int) -> None:
    codebook, k = book(H, S), keys(B, H, N, 4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "DISTANCES", room)
        codes = codebook.assign(k)
    want = (k.unsqueeze(3) - codebook.vectors.unsqueeze(1)).square().sum(-1).argmin(-1)
    assert torch.equal(codes, want)
    assert torch.equal(codebook.lookup(codes)[-1, -1, -1], codebook.vectors[-1, codes[-1, -1, -1]])


def test_codes_of_half_precision_are_chosen_in_float32() -> None:
    codebook = Codebook(torch.randn(1, 300, 16))
    k = torch.randn(1, 1, 500, 16).bfloat16()
    assert torch.equal(codebook.assign(k), codebook.assign(k.float()))
    assert torch.equal(codebook.bfloat16().assign(k), codebook.assign(k.float()))


def test_quantised_keys_are_codes_in_value_and_keys_in_gradient() -> None:
    codebook, k = book(), keys(3, 2, 7, 4).requires_grad_()
    k_hat, codes = codebook.quantise(k)
    assert torch.equal(k_hat, codebook.lookup(codes))
    g = keys(3, 2, 7, 4)
    assert torch.equal(torch.autograd.grad(k_hat, k, g)[0], g)


def test_a_step_without_memory_is_a_step_of_k_means() -> None:
    codebook, k = book(), keys(3, 2, 50, 4)
    codes = codebook.assign(k)
    codebook.update(k, codes, gamma=0.0)
    for h, s in product(range(2), range(5)):
        mine = k[:, h][codes[:, h] == s]
        torch.testing.assert_close(codebook.vectors[h, s], mine.mean(0), rtol=0, atol=1e-12)
    # which lessens the distance to the nearest
    assert distance(k, codebook) < distance(k, codebook, codes)


def test_the_moving_average_is_that_of_sums_and_of_counts_and_may_be_taken_in_two_halves() -> None:
    codebook, k = book(), keys(4, 2, 30, 4)
    before, halves, codes = copy.deepcopy(codebook), copy.deepcopy(codebook), codebook.assign(k)
    codebook.update(k, codes)
    for h, s in product(range(2), range(5)):
        mine = k[:, h][codes[:, h] == s]
        torch.testing.assert_close(codebook.sums[h, s], 0.99 * before.sums[h, s] + 0.01 * mine.sum(0))
        torch.testing.assert_close(codebook.counts[h, s], 0.99 * before.counts[h, s] + 0.01 * len(mine))
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


def test_casting_moves_codes_and_never_rounds_them() -> None:
    codebook = Codebook(torch.randn(1, 3, 4))
    before = codebook.vectors
    assert torch.equal(codebook.half().double().vectors, before)
    assert set(codebook.state_dict()) == {"sums", "counts"}
    assert not list(codebook.parameters())


def test_codes_find_the_centres_of_keys_that_lie_around_some() -> None:
    centres = 10 * torch.eye(4)[:, :2] + torch.tensor([[0.0, 0], [0, 0], [-10, -10], [10, 10]])
    codebook = Codebook.drawn(1, 16, 2)
    codebook.fit(centres[torch.randint(4, (3, 1, 50))] + 0.01 * torch.randn(3, 1, 50, 2))
    assert torch.cdist(centres, codebook.vectors[0]).amin(1).max() < 0.1


def test_each_step_brings_codes_nearer_to_keys() -> None:
    k, off = torch.randn(4, 2, 200, 8), []
    for steps in (0, 1, 3, 10):
        torch.manual_seed(1)
        codebook = Codebook.drawn(2, 32, 8)
        codebook.fit(k, steps)
        off.append(distance(k, codebook))
    assert off == sorted(off, reverse=True)
    assert off[-1] < 0.9 * off[0]


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


@pytest.mark.parametrize("name", ["vq.quantised", "vq.blockwise", "vq.gau"])
def test_a_method_adapts_to_keys_as_they_enter_the_scores(name: str) -> None:
    method: Any = build(name, Problem(B=4, H=2, N=64, D=8, causal=True), codes=16)
    inputs = type(method).inputs(method.problem, torch.Generator().manual_seed(7))
    k = method.normalised(inputs[1])
    before = distance(k, method.codebook)
    method.adapt(*inputs)
    assert distance(k, method.codebook) < 0.7 * before
    assert {x.dtype for x in method.codebook.buffers()} == {torch.float32}
    assert method(*inputs).isfinite().all()


@pytest.mark.parametrize("reduction", ["serial", "matmul", "scan"])
def test_means_of_large_values_lose_nothing_with_the_length(reduction: str) -> None:
    # sums of these would pass the largest float16, and in bfloat16 stop growing
    v, codes = torch.full((1, 4096, 1), 60000.0, dtype=torch.float16), torch.zeros(1, 4096, dtype=torch.int64)
    means, _ = tables.running_tables(v, codes, 1, 64, reduction)
    torch.testing.assert_close(means, torch.full_like(means, 60000.0), rtol=1e-5, atol=0)
