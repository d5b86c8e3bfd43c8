"""One tensor as query and key: exact attention over it, the hashing of a package, and our Reformer, by default the same."""

from functools import partial
from importlib import import_module
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnbench import Problem, build
from attnbench.measure.profiler_memory import saved_for_backward, torch_profiler_peak
from tests.impls.contract.calls import Call, inputs_of, same
from tests.impls.contract.families.lsh import METHODS
from tests.impls.contract.subjects import Variant

# by name: installed under another name than that of its folder
shared_qk_attention: Any = import_module("attnbench_impls.lsh.shared_qk").shared_qk_attention

CAUSAL = pytest.mark.parametrize("causal", [False, True])


def called(name: str, N: int, dtype: str = "float64", **about: Any) -> Call:
    """A call of few tokens in short buckets; `about` are fields of its problem and parameters."""
    shape = {key: about.pop(key) for key in [*about] if key in Problem.model_fields}
    return Call(Variant(f"lsh.{name}", about), Problem(**{"B": 2, "H": 2, "N": N, "D": 8, "dtype": dtype, **shape}))


def reformer(N: int, dtype: str = "float64", **about: Any) -> Call:
    return called("reformer", N, dtype, **{"bucket_size": 8, "rounds": 3, **about})


def attend_one_by_one(qk: Tensor, v: Tensor, scale: float, causal: bool) -> Tensor:
    """Row by row over what is there beside the token; the token itself where that is nothing. [N, D], [N, M] -> [N, M]."""
    keys, rows = qk / qk.norm(dim=-1, keepdim=True), []
    for i in range(len(qk)):
        others = [j for j in range(i if causal else len(qk)) if j != i] or [i]
        rows.append((keys[others] @ qk[i] * scale).softmax(-1) @ v[others])
    return torch.stack(rows)


@CAUSAL
@pytest.mark.parametrize("temperature", ["package", "paper"])
def test_a_token_sees_all_others_and_itself_only_if_there_are_none(temperature: str, causal: bool) -> None:
    for N in (1, 2, 9):
        call = called("full", N, B=1, H=1, M=3, causal=causal, temperature=temperature)
        qk, _, v = (x.detach()[0, 0] for x in call.inputs)
        want = attend_one_by_one(qk, v, 1.0 if temperature == "paper" else 8**-0.5, causal)
        same([call.results("reference")[0][0, 0]], [want], 1e-12)
    # a token of zeros is a number too, where torch's least norm is 0
    call = called("full", 9, "float16", causal=causal, temperature=temperature)
    call.inputs[0].data[:, :, 4] = 0
    assert all(x.isfinite().all() for function in ("forward", "reference") for x in call.results(function))


def test_no_tensor_of_pairs_is_made() -> None:
    method = build("lsh.full", Problem(B=1, H=1, N=2048, D=8))
    inputs = inputs_of(method)
    with torch.no_grad():
        assert (torch_profiler_peak(lambda: method(*inputs)).bytes or torch.inf) < 2048 * 2048


def test_the_package_hashes_each_round_into_buckets_of_its_own_and_anew_where_none_are_given() -> None:
    call = called("reformer_pytorch", 128, "float32", rounds=3, bucket_size=16)
    assert call.choices is not None
    assert torch.equal(call.choices // 8, torch.arange(3)[:, None].expand(2, 2, 3, 128))
    assert torch.equal(call.forward(), call.forward())
    assert not torch.equal(call.forward(choices=None), call.forward(choices=None))


@CAUSAL
@pytest.mark.parametrize("rounds", [1, 4])
def test_by_default_it_is_the_function_of_the_package(rounds: int, causal: bool) -> None:
    ours, package = (
        called(name, 128, causal=causal, rounds=rounds, bucket_size=16) for name in ("reformer", "reformer_pytorch")
    )
    # one seed gives both the same buckets
    assert ours.choices is not None
    assert package.choices is not None
    assert torch.equal(ours.choices, package.choices)
    same(ours.results(), package.results(), 1e-10)


@settings(max_examples=20, deadline=None)
@given(N=st.integers(1, 60), causal=st.booleans(), data=st.data())
def test_scores_too_large_to_be_summed_as_they_are_make_no_difference(N: int, causal: bool, data: Any) -> None:
    call = reformer(N, B=1, D=6, M=5, causal=causal, **data.draw(METHODS["lsh.reformer"].any_params))
    qk, _, v = call.inputs
    qk = (1000 * qk.detach()).requires_grad_()
    same(call.results(inputs=(qk, qk, v)), call.results("reference", (qk, qk, v)), 1e-10)


@CAUSAL
@pytest.mark.parametrize(("name", "N"), [("reformer", 1), ("reformer", 31), ("reformer", 64), ("reformer_pytorch", 64)])
def test_one_round_of_two_chunks_is_full_attention(name: str, N: int, causal: bool) -> None:
    call = called(name, N, causal=causal, rounds=1, bucket_size=32)
    qk, _, v = (x.detach() for x in call.inputs)
    want = shared_qk_attention(qk, v, 8**-0.5, causal=causal)
    same([call.forward(), call.method.exact(qk, qk, v)], [want, want], 1e-10)


def test_corrected_rounds_are_one_softmax_over_the_union_and_within_buckets_their_order_makes_no_difference() -> None:
    # so many rounds see every pair, and each counts once
    call = reformer(40, B=1, rounds=32, duplicates="corrected")
    same([call.forward()], [call.method.exact(*call.inputs)], 1e-10)
    call = reformer(64, B=1, across_buckets=False)
    assert call.choices is not None
    same([call.forward(choices=call.choices.roll(1, 2))], [call.forward()], 1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_token_that_sees_only_itself_gets_its_own_value_exactly(dtype: str) -> None:
    call = reformer(50, dtype, causal=True)
    qk, _, v = call.inputs
    o = call.method(qk, qk, v)
    assert torch.equal(o[:, :, 0], v[:, :, 0])
    dqk, dv = torch.autograd.grad(o[:, :, 0].sum(), (qk, v))
    assert torch.equal(dv[:, :, 0], torch.ones_like(v[:, :, 0]))
    assert not dqk.any()
    assert not dv[:, :, 1:].any()


def test_equal_vectors_share_a_bucket_and_opposite_ones_do_not() -> None:
    call = reformer(64, B=1, H=1, bucket_size=4, factorise=True)
    qk = torch.randn(1, 1, 64, 8, dtype=torch.float64)
    qk[:, :, 40], qk[:, :, 50] = 2 * qk[:, :, 7], -qk[:, :, 7]
    buckets = call.method.choose(qk, qk, qk).view(3, 64)
    assert torch.equal(buckets[:, 40], buckets[:, 7])
    assert not (buckets[:, 50] == buckets[:, 7]).any()


def test_more_than_128_buckets_are_hashed_in_two_factors_and_stay_balanced() -> None:
    call = reformer(4096, "float32", B=1, H=4, D=32, bucket_size=16, rounds=1)
    drawn = []
    for seed in (9, 9, 10):
        torch.manual_seed(seed)
        drawn.append(call.method.choose(*call.inputs))
    assert int(drawn[0].max()) < 256
    assert float(drawn[0].flatten().bincount(minlength=256).double().std()) < 4096 * 4 / 256
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


@CAUSAL
@pytest.mark.parametrize("params", [{"bucket_size": 64}, {"bucket_size": 128}, {}, {"look_forward": True}], ids=str)
@pytest.mark.parametrize("N", [64, 77])
def test_no_number_is_read_before_it_is_written(
    N: int, params: dict[str, Any], causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In deterministic mode new memory is full of NaN."""
    call = reformer(N, causal=causal, **params)
    whole = call.results()
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(2).isnan().all()
        same(call.results(), whole, 1e-10)
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("rounds", [1, 4])
def test_it_takes_less_memory_than_the_package(rounds: int) -> None:
    peaks = []
    for name in ("reformer", "reformer_pytorch"):
        call = called(name, 1024, "float32", B=1, H=4, D=64, rounds=rounds)
        call.results(choices=None)
        peaks.append(torch_profiler_peak(partial(call.results, choices=None)).bytes or 0)
    assert peaks[0] < peaks[1] / rounds**0.5


def test_what_is_kept_for_the_backward_does_not_grow_with_rounds_but_for_the_order() -> None:
    calls = (called("reformer", 512, "float32", B=1, D=64, rounds=rounds) for rounds in (2, 8))
    few, many = (saved_for_backward(partial(call.method, *call.inputs)).bytes or 0 for call in calls)
    assert many - few == 6 * 4 * 2 * 512
