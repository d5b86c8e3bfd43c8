"""Pooled keys and values, pooled queries: blocks of any length, and what it costs; tokens chosen by the attention they get."""

from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench import Problem, build
from attnbench.measure.profiler_memory import torch_profiler_peak
from attnbench.schema.cell import Workload
from tests.impls.contract.calls import Call
from tests.impls.contract.subjects import Variant, cost_of

NAMES = ["key_value", "funnel"]
elimination: Any = import_module("attnbench_impls.pooling.elimination")


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


@pytest.mark.usefixtures("one_thread")
def test_a_block_that_is_longer_than_the_sequence_takes_no_more_memory() -> None:
    peaks = []
    for factor in (512, 10**6):
        call = called("funnel", 512, factor, dtype="float32")
        call.forward()
        peaks.append(torch_profiler_peak(call.forward).bytes)
    assert peaks[0] == peaks[1]


def power_bert(N: int, keep: float, **shape: Any) -> Any:
    return build(
        "pooling.power_bert", Problem(**{"B": 2, "H": 4, "N": N, "D": 8, "M": 5, "dtype": "float64", **shape}), keep=keep
    )


def inputs_of(method: Any) -> Any:
    return type(method).inputs(method.problem, torch.Generator().manual_seed(7))


def test_those_that_get_the_most_attention_attend_to_each_other_and_the_others_get_nothing() -> None:
    method = power_bert(11, 0.4, B=1, H=2)
    q, k, v = inputs_of(method)
    got = [0.0] * 11
    for h in range(2):
        for i in range(11):
            weights = (k[0, h] @ q[0, h, i] / 8**0.5).softmax(0).tolist()
            got = [a + w for a, w in zip(got, weights, strict=True)]
    assert elimination.significance(q, k, 8**-0.5)[0].tolist() == pytest.approx(got, abs=1e-12)
    kept = sorted(sorted(range(11), key=lambda j: -got[j])[:4])
    assert method.choose(q, k, v).tolist() == [[kept]]
    o = method(q, k, v)
    for h in range(2):
        for i in range(11):
            want = naive_attention(q[0, h, i], k[0, h, kept], v[0, h, kept]) if i in kept else torch.zeros(5).double()
            torch.testing.assert_close(o[0, h, i], want, rtol=0, atol=1e-12)
    assert o[0, :, kept].abs().amin() > 0


@pytest.mark.parametrize(("N", "keep", "kept"), [(11, 0.4, 4), (3, 0.01, 1), (1, 0.5, 1), (7, 1, 7), (100, 0.29, 29)])
def test_as_many_are_kept_as_were_asked_for_but_one_at_least(N: int, keep: float, kept: int) -> None:
    method = power_bert(N, keep)
    assert method.choose(*inputs_of(method)).shape == (2, 1, kept)


def test_of_tokens_that_get_the_same_the_earlier_are_kept() -> None:
    method = power_bert(50, 0.2)
    q, k, v = (torch.ones_like(x) for x in inputs_of(method))
    assert method.choose(q, k, v).tolist() == [[list(range(10))]] * 2


def test_the_same_are_kept_however_many_scores_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    method = power_bert(45, 0.3, kv_heads=2)
    inputs = inputs_of(method)
    want = method.choose(*inputs)
    for scores in (1, 100, 1000):
        monkeypatch.setattr("attnbench_impls.pooling.elimination.SCORES", scores)
        assert torch.equal(method.choose(*inputs), want)


def test_choosing_costs_all_scores_once_and_attending_only_those_of_the_kept() -> None:
    def exact(workload: Workload, keep: float) -> float:
        return cost_of("pooling.power_bert", Problem(B=2, H=4, N=100, D=8, M=6), workload, {"keep": keep}).exact_flops

    scores, attended = 2 * 2 * 4 * 100 * 100 * 8, 2 * 2 * 4 * 25 * 25 * (8 + 6)
    assert exact(Workload.FORWARD, 0.25) == scores + attended
    assert exact(Workload.FORWARD_BACKWARD, 0.25) == scores + 3 * attended
