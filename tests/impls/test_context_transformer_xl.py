"""Transformer-XL: its definition, a memory that is a constant, and pairs as they are counted."""

from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from attnbench import Problem
from tests.impls.contract.calls import Call
from tests.impls.contract.subjects import Variant

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
