"""Pooled keys and values, pooled queries: blocks of any length, their gradients, and what it costs."""

from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench import Problem, build
from attnbench.measure.profiler_memory import torch_profiler_peak
from tests.impls.contract.calls import Call
from tests.impls.contract.subjects import Variant

NAMES = ["key_value", "funnel"]


def called(name: str, N: int, factor: int, **shape: Any) -> Call:
    problem = Problem(**{"B": 2, "H": 4, "N": N, "D": 8, "M": 5, "dtype": "float64", **shape})
    return Call(Variant(f"pooling.{name}", {"factor": factor}), problem)


def naive_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """One query after the other: lists of [D], [D], [M]."""
    scores = torch.stack([q @ key for key in k]) / q.shape[0] ** 0.5
    return torch.stack([share * value for share, value in zip(scores.softmax(0), v, strict=True)]).sum(0)


def blocks(x: Tensor, factor: int) -> Tensor:
    return torch.stack([x[a : a + factor].mean(0) for a in range(0, len(x), factor)])


def test_the_definition_is_a_mean_over_each_block_and_softmax() -> None:
    pooled, funnel = (called(name, 11, 4, B=1, H=1) for name in NAMES)
    q, k, v = (x[0, 0].detach() for x in pooled.inputs)
    want = torch.stack([naive_attention(row, blocks(k, 4), blocks(v, 4)) for row in q])
    torch.testing.assert_close(pooled.results("reference")[0][0, 0], want, rtol=0, atol=1e-12)
    want = torch.stack([naive_attention(blocks(q, 4)[i // 4], k, v) for i in range(11)])
    torch.testing.assert_close(funnel.results("reference")[0][0, 0], want, rtol=0, atol=1e-12)


def test_tokens_that_are_alike_within_blocks_lose_nothing() -> None:
    pooled, funnel = (called(name, 48, 4) for name in NAMES)
    q, k, v = (x.detach() for x in pooled.inputs)
    alike = [x[:, :, ::4].repeat_interleave(4, dim=2) for x in (q, k, v)]
    softmax = build("softmax.naive", pooled.problem)
    torch.testing.assert_close(pooled.forward(q, *alike[1:]), softmax(q, *alike[1:]), rtol=0, atol=1e-12)
    torch.testing.assert_close(funnel.forward(alike[0], k, v), softmax(alike[0], k, v), rtol=0, atol=1e-12)


def test_one_block_of_keys_gives_the_mean_value() -> None:
    call = called("key_value", 9, 9)
    want = call.inputs[2].detach().mean(2, keepdim=True).expand(-1, -1, 9, -1)
    torch.testing.assert_close(call.forward(), want, rtol=0, atol=1e-12)


def test_neighbours_share_one_output() -> None:
    for block in called("funnel", 10, 4).forward().split(4, dim=2):
        assert torch.equal(block, block[:, :, :1].expand_as(block))


@pytest.mark.usefixtures("one_thread")
def test_a_block_that_is_longer_than_the_sequence_takes_no_more_memory() -> None:
    peaks = []
    for factor in (512, 10**6):
        call = called("funnel", 512, factor, dtype="float32")
        call.forward()
        peaks.append(torch_profiler_peak(call.forward).bytes)
    assert peaks[0] == peaks[1]
