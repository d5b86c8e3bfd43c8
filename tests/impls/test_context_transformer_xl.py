"""Transformer-XL: segments, a memory that is a constant, positions relative to the query; in parallel and token by token."""

from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from attnbench import Problem, build
from tests.impls.contract.calls import Call
from tests.impls.contract.subjects import Variant

positions: Any = import_module("attnbench_impls.context.eager.positions")
segments: Any = import_module("attnbench_impls.context.eager.segments")


def called(N: int, segment: int, memory: int | None = None, **shape: Any) -> Call:
    problem = Problem(**{"B": 2, "H": 3, "N": N, "D": 8, "M": 5, "causal": True, "dtype": "float64", **shape})
    params = {"segment": segment} if memory is None else {"segment": segment, "memory": memory}
    return Call(Variant("context.transformer_xl", params), problem)


def test_the_definition_is_the_papers_sum_over_pairs() -> None:
    call = called(13, 4, 3, B=1, H=1, D=6)
    q, k, v = (x[0, 0].detach() for x in call.inputs)
    u, w, weight = (x[0].detach() for x in (call.method.u, call.method.w, call.method.W_r))

    def r(x: int) -> Tensor:
        angles = torch.tensor([x / 10000 ** (2 * d / 6) for d in range(3)], dtype=torch.float64)
        position: Tensor = weight @ torch.cat((angles.sin(), angles.cos()))
        return position

    rows = []
    for i in range(13):
        seen = range(max(0, i // 4 * 4 - 3), i + 1)
        scores = torch.stack([(q[i] + u) @ k[j] + (q[i] + w) @ r(i - j) for j in seen]) / 6**0.5
        rows.append(scores.softmax(0) @ v[seen.start : seen.stop])
    torch.testing.assert_close(call.results("reference")[0][0, 0], torch.stack(rows), rtol=0, atol=1e-10)


def test_the_memory_is_a_constant() -> None:
    call = called(32, 8)
    dk, dv = torch.autograd.grad(call.method(*call.inputs)[:, :, 16:24].square().sum(), call.inputs[1:])
    for x in (dk, dv):
        assert (x[:, :, :16] == 0).all()
        assert (x[:, :, 16:24] != 0).any()
        assert (x[:, :, 24:] == 0).all()


def test_what_is_before_the_memory_changes_nothing() -> None:
    call = called(40, 8, 6)
    before, (q, k, v) = call.forward(), (x.detach().clone() for x in call.inputs)
    for x in (k, v):
        x[:, :, : 24 - 6] = 9
    assert torch.equal(call.forward(q, k, v)[:, :, 24:], before[:, :, 24:])
    k[:, :, 24 - 6] = -9
    assert not torch.equal(call.forward(q, k, v)[:, :, 24:32], before[:, :, 24:32])


def test_one_segment_without_positions_is_softmax() -> None:
    call = called(33, 512)
    for parameter in call.method.parameters():
        parameter.data.zero_()
    softmax = build("softmax.naive", call.problem)
    torch.testing.assert_close(call.forward(), softmax(*(x.detach() for x in call.inputs)), rtol=0, atol=1e-12)


def test_the_scores_depend_on_distance_alone() -> None:
    call = called(24, 24, 0, B=1)
    q, k, v = (x.detach()[:, :, :1].expand(-1, -1, 24, -1).clone() for x in call.inputs)
    v = torch.eye(24, dtype=torch.float64).expand(1, 3, -1, -1)
    p = call.method.reference(q, k, v)
    # equal tokens: the odds of two neighbouring distances are the same for every query
    odds = p.diagonal(-3, -2, -1)[..., 2:] / p.diagonal(-5, -2, -1)
    torch.testing.assert_close(odds, odds[..., :1].expand_as(odds), rtol=1e-10, atol=0)
    torch.testing.assert_close(call.forward(q, k, v), p, rtol=0, atol=1e-12)


def test_the_state_is_of_constant_size() -> None:
    call = called(40, 8)
    sizes = [call.method.state_bytes(call.method.prefill(*call.inputs, capacity=n)[1]) for n in (40, 4000)]
    assert sizes == [2 * 3 * (8 + 8) * (8 + 5) * 8] * 2


def test_pairs_are_counted_as_they_are_seen() -> None:
    for N, L, memory in [(1, 4, 4), (13, 4, 3), (40, 8, 20), (9, 3, 0)]:
        cut = segments.Segments.of(N, L, memory)
        windows = [range(max(0, i // L * L - memory), i + 1) for i in range(N)]
        assert cut.pairs() == sum(map(len, windows))
        assert cut.own_pairs() == sum(i % L + 1 for i in range(N))
        assert [cut.seen(i) for i in range(N)] == [len(window) for window in windows]
