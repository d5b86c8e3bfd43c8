"""LSH attention with the package's own hashing."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench import Problem, build


def shared_qk_attention(qk: Tensor, v: Tensor) -> Tensor:
    """Full attention with one tensor as query and key: unit keys, the token itself only as a last resort."""
    scores: Tensor = qk @ torch.nn.functional.normalize(qk, dim=-1).mT / math.sqrt(qk.shape[-1])
    return scores.masked_fill(torch.eye(qk.shape[2], dtype=torch.bool), -5e4).softmax(-1) @ v


def test_one_round_of_two_buckets_is_full_attention(inputs_of: Any) -> None:
    method = build("lsh.reformer_pytorch", Problem(B=2, H=2, N=64, D=8, dtype="float64"), rounds=1, bucket_size=32)
    qk, _, v = inputs_of(method)
    want = shared_qk_attention(qk, v)
    torch.testing.assert_close(method(qk, qk, v), want, rtol=0, atol=1e-10)
    torch.testing.assert_close(method.reference(qk, qk, v), want, rtol=0, atol=1e-10)


def test_more_rounds_come_closer_to_full_attention(inputs_of: Any) -> None:
    def error(rounds: int) -> float:
        method = build("lsh.reformer_pytorch", Problem(B=2, H=4, N=256, D=8), rounds=rounds, bucket_size=16)
        qk, _, v = inputs_of(method)
        return float((method(qk, qk, v) - shared_qk_attention(qk, v)).norm().detach())

    assert error(1) > 1.5 * error(8) > 1.5 * 1.2 * error(32)


def test_each_round_puts_every_token_into_one_bucket(inputs_of: Any) -> None:
    method = build("lsh.reformer_pytorch", Problem(B=1, H=2, N=128, D=8), rounds=3, bucket_size=16)
    buckets = method.choose(*inputs_of(method))
    assert buckets is not None
    assert buckets.shape == (1, 2, 3, 128)
    assert torch.equal(buckets // 8, torch.arange(3)[:, None].expand(1, 2, 3, 128))


def test_without_choices_the_package_hashes_anew(inputs_of: Any) -> None:
    method = build("lsh.reformer_pytorch", Problem(B=1, H=2, N=128, D=8), bucket_size=16)
    inputs = inputs_of(method)
    given = method.choose(*inputs)
    assert torch.equal(method(*inputs, choices=given), method(*inputs, choices=given))
    assert not torch.equal(method(*inputs), method(*inputs))


def test_two_tensors_are_refused_even_if_equal(inputs_of: Any) -> None:
    method = build("lsh.reformer_pytorch", Problem(B=1, H=2, N=128, D=8), bucket_size=16)
    qk, _, v = inputs_of(method)
    for call in (method, method.reference):
        with pytest.raises(ValueError, match="one tensor"):
            call(qk, qk.clone(), v)


def test_inputs_share_one_tensor_for_queries_and_keys(inputs_of: Any) -> None:
    q, k, v = inputs_of(build("lsh.reformer_pytorch", Problem(N=128), rounds=1))
    assert q is k
    assert v is not q
