"""Samples and heads do not mix."""

from typing import Any

import pytest
import torch

from attnbench import Problem, build

METHODS = [("softmax.naive", True), ("softmax.sdpa", True), ("linear.full", False), ("linear.chunked", True)]


@pytest.mark.parametrize(("name", "causal"), METHODS)
@pytest.mark.parametrize("dim", [0, 1])
def test_permuted_samples_or_heads_come_out_permuted(name: str, causal: bool, dim: int, inputs_of: Any) -> None:
    method = build(name, Problem(B=3, H=3, N=70, D=8, causal=causal, dtype="float64"))
    inputs, order = inputs_of(method), torch.tensor([2, 0, 1])
    permuted = method(*(x.index_select(dim, order) for x in inputs))
    torch.testing.assert_close(permuted, method(*inputs).index_select(dim, order), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dim", [0, 1])
def test_hashed_heads_and_samples_do_not_mix(dim: int, inputs_of: Any) -> None:
    method = build("lsh.reformer_pytorch", Problem(B=3, H=3, N=64, D=8, dtype="float64"), bucket_size=16)
    (qk, _, v), order = inputs_of(method), torch.tensor([2, 0, 1])
    buckets = method.choose(qk, qk, v)
    assert buckets is not None
    moved = buckets.index_select(dim, order)
    swapped = qk.index_select(dim, order)
    permuted = method(swapped, swapped, v.index_select(dim, order), choices=moved)
    torch.testing.assert_close(permuted, method(qk, qk, v, choices=buckets).index_select(dim, order), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("name", "causal"), [("softmax.naive", True), ("softmax.sdpa", True), ("linear.full", False)])
def test_a_shared_head_of_keys_serves_neighbouring_heads(name: str, causal: bool, inputs_of: Any) -> None:
    shared = build(name, Problem(B=2, H=4, kv_heads=2, N=70, D=8, causal=causal, dtype="float64"))
    apart = build(name, Problem(B=2, H=4, N=70, D=8, causal=causal, dtype="float64"))
    q, k, v = inputs_of(shared)
    assert k.shape[1] == 2
    repeated = apart(q, k.repeat_interleave(2, dim=1), v.repeat_interleave(2, dim=1))
    torch.testing.assert_close(shared(q, k, v), repeated, rtol=0, atol=1e-12)
