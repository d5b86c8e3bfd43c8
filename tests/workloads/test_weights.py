"""Weights: what each query gives to each key, read off a method's own definition."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from attnbench import registry
from attnbench.api import Attention
from attnbench.schema.problem import DType, Problem
from attnbench.workloads.weights import draw_weights, exact_weights, executed_weights, weights

METHODS = ("softmax.naive", "softmax.sdpa", "linear.chunked", "linear.recurrent")


def problem(N: int = 32, **changes: object) -> Problem:
    return Problem(**{"B": 2, "H": 4, "N": N, "D": 8, "dtype": DType.FLOAT64, "causal": True, **changes})


def build(name: str, p: Problem, **params: int) -> tuple[Attention, tuple[Tensor, ...]]:
    method = registry.build(name, p, **params).double()
    return method, type(method).inputs(p, torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("name", "kv_heads"), [*((name, 4) for name in METHODS), ("softmax.naive", 2), ("linear.full", 1)])
@pytest.mark.parametrize("N", [1, 33])
def test_weights_times_values_are_the_output(name: str, N: int, kv_heads: int) -> None:
    method, (q, k, v) = build(name, problem(N, M=5, kv_heads=kv_heads, causal=name != "linear.full"))
    found = weights(method, (q, k, v))
    torch.testing.assert_close(found @ v.repeat_interleave(4 // kv_heads, dim=1), method.reference(q, k, v), atol=1e-10, rtol=0)


@pytest.mark.parametrize("name", METHODS)
def test_nothing_is_given_to_later_keys_and_in_all_one(name: str) -> None:
    found = weights(*build(name, problem()))
    assert found.shape == (2, 4, 32, 32)
    assert not found.triu(1).any()
    torch.testing.assert_close(found.sum(-1), torch.ones(2, 4, 32, dtype=torch.float64), atol=1e-5, rtol=0)


def test_choices_that_are_given_are_taken() -> None:
    method, (q, k, v) = build("lsh.reformer_pytorch", problem(causal=False), rounds=1, bucket_size=4)
    choices = method.choose(q, k, v)
    first, again = (weights(method, (q, k, v), choices) for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, weights(method, (q, k, v)))
    torch.testing.assert_close(first @ v, method(q, k, v, choices=choices), atol=1e-10, rtol=0)


@pytest.mark.parametrize(
    ("name", "params"),
    [("softmax.sdpa", {}), ("linear.chunked", {}), ("lsh.reformer_pytorch", {"bucket_size": 4, "rounds": 2})],
)
@pytest.mark.parametrize("N", [8, 32, 40])
def test_a_method_gives_the_weights_of_its_definition(name: str, params: dict[str, int], N: int) -> None:
    method, inputs = build(name, problem(N), **params)
    choices = method.choose(*inputs)
    found = executed_weights(method, inputs, choices)
    assert found.shape == (2, 4, N, N)
    torch.testing.assert_close(found, weights(method, inputs, choices), atol=1e-10, rtol=0)


def test_weights_are_asked_for_in_the_width_that_the_method_was_built_for(monkeypatch: pytest.MonkeyPatch) -> None:
    method, inputs = build("softmax.naive", problem(21))
    widths, forward = [], method.forward

    def watched(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        widths.append(v.shape[-1])
        return forward(q, k, v)

    monkeypatch.setattr(method, "forward", watched)
    before = [x.clone() for x in inputs]
    assert executed_weights(method, inputs, None).shape[-1] == 21
    assert widths == [8, 8, 8]
    assert exact_weights(method, inputs).shape == weights(method, inputs).shape
    assert all(torch.equal(x, y) for x, y in zip(inputs, before, strict=True)), "inputs are left as they were"


def test_the_exact_attention_is_softmax_where_a_method_does_not_say_otherwise() -> None:
    method, inputs = build("linear.chunked", problem())
    torch.testing.assert_close(exact_weights(method, inputs), weights(*build("softmax.naive", problem())), atol=1e-10, rtol=0)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("rounds", [1, 4])
def test_what_hashing_approximates_is_attention_with_shared_queries_and_keys(causal: bool, rounds: int) -> None:
    method, (q, k, v) = build("lsh.reformer_pytorch", problem(causal=causal), rounds=rounds, bucket_size=4)
    scores = (q @ F.normalize(q, dim=-1).mT / math.sqrt(8)).masked_fill(torch.eye(32, dtype=torch.bool), -5e4)
    later = torch.ones(32, 32, dtype=torch.bool).triu(1)
    want = (scores.masked_fill(later, -torch.inf) if causal else scores).softmax(-1)
    torch.testing.assert_close(exact_weights(method, (q, k, v)), want, atol=1e-10, rtol=0)


def test_a_drawing_depends_on_its_seed_and_on_nothing_else() -> None:
    p = problem(causal=False, dtype=DType.FLOAT32)
    first = draw_weights("lsh.reformer_pytorch", p, {"bucket_size": 4}, 3)
    torch.rand(7)
    assert torch.equal(first, draw_weights("lsh.reformer_pytorch", p, {"bucket_size": 4}, 3))
    assert not torch.equal(first, draw_weights("lsh.reformer_pytorch", p, {"bucket_size": 4}, 4))


def test_a_method_for_gpus_alone_is_drawn_here_too() -> None:
    p = problem(dtype=DType.FLOAT32)
    torch.testing.assert_close(draw_weights("linear.cuda", p, {}, 0), draw_weights("linear.chunked", p, {}, 0))
