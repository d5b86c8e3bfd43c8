"""Exact attention with one tensor as query and key, and LSH attention with the package's own hashing."""

from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench import Problem, build
from attnbench.measure.profiler_memory import torch_profiler_peak
from tests.impls.contract.calls import Call, inputs_of, same
from tests.impls.contract.subjects import Variant

NAME = "lsh.full"


def attend_one_by_one(qk: Tensor, v: Tensor, scale: float, causal: bool) -> Tensor:
    """Row by row over what is there beside the token; the token itself where that is nothing. [N, D], [N, M] -> [N, M]."""
    keys, rows = qk / qk.norm(dim=-1, keepdim=True), []
    for i in range(len(qk)):
        others = [j for j in range(i if causal else len(qk)) if j != i] or [i]
        rows.append((keys[others] @ qk[i] * scale).softmax(-1) @ v[others])
    return torch.stack(rows)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("temperature", ["package", "paper"])
def test_a_token_sees_all_others_and_itself_only_if_there_are_none(temperature: str, causal: bool) -> None:
    for N in (1, 2, 9):
        method = build(NAME, Problem(B=1, H=1, N=N, D=8, M=3, causal=causal, dtype="float64"), temperature=temperature)
        qk, _, v = (x.detach() for x in inputs_of(method))
        want = attend_one_by_one(qk[0, 0], v[0, 0], 1.0 if temperature == "paper" else 8**-0.5, causal)
        torch.testing.assert_close(method.reference(qk, qk, v)[0, 0], want, rtol=0, atol=1e-12)
        torch.testing.assert_close(method(qk, qk, v)[0, 0], want, rtol=0, atol=1e-12)


def test_no_tensor_of_pairs_is_made() -> None:
    method = build(NAME, Problem(B=1, H=1, N=2048, D=8))
    inputs = inputs_of(method)
    with torch.no_grad():
        peak = torch_profiler_peak(lambda: method(*inputs)).bytes
    assert peak is not None
    assert peak < 2048 * 2048


def of_package(N: int, dtype: str = "float32", **params: Any) -> Call:
    return Call(Variant("lsh.reformer_pytorch", params), Problem(B=2, H=2, N=N, D=8, dtype=dtype))


def test_one_round_of_two_buckets_is_full_attention() -> None:
    call = of_package(64, "float64", rounds=1, bucket_size=32)
    same([call.forward(), call.results("reference")[0]], [call.method.exact(*call.inputs)] * 2, 1e-10)


def test_each_round_puts_every_token_into_one_bucket() -> None:
    buckets = of_package(128, rounds=3, bucket_size=16).choices
    assert buckets is not None
    assert buckets.shape == (2, 2, 3, 128)
    assert torch.equal(buckets // 8, torch.arange(3)[:, None].expand(2, 2, 3, 128))


def test_without_choices_the_package_hashes_anew() -> None:
    call = of_package(128, bucket_size=16)
    assert torch.equal(call.forward(), call.forward())
    assert not torch.equal(call.forward(choices=None), call.forward(choices=None))
