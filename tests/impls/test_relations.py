"""Methods that are others at the ends of their parameters, and second derivatives, which are refused."""

from typing import Any

import pytest
import torch

from attnbench import Problem, build

Params = dict[str, Any]
SOFTMAX: tuple[str, Params] = ("softmax.naive", {})
SAME: list[tuple[str, Params, tuple[str, Params], Params]] = [
    *(
        ("blocks.moba", {"block": 8, "topk": topk}, SOFTMAX, {"N": N, "causal": True})
        for N, topk in ((30, 4), (33, 5), (64, 8), (64, 100))
    ),
    *(("sparse.topk", {"k": 30}, SOFTMAX, {"N": 30, "causal": causal}) for causal in (False, True)),
    *((f"pooling.{name}", {"factor": 1}, SOFTMAX, {"N": 37, "kv_heads": 2}) for name in ("key_value", "funnel")),
    ("pooling.power_bert", {"keep": 1}, SOFTMAX, {"N": 37, "kv_heads": 2}),
    *(("landmark.pyramid", {"bins": str(N)}, SOFTMAX, {"N": N}) for N in (1, 12, 40)),
    (
        "context.adaptive_span",
        {"span": 31.5, "ramp": 1e-6, "sees_itself": True},
        ("sparse.window", {"window": 32}),
        {"N": 100, "H": 1, "causal": True},
    ),
]


@pytest.mark.parametrize(("name", "params", "other", "shape"), SAME, ids=str)
def test_one_is_the_other(name: str, params: Params, other: tuple[str, Params], shape: Params) -> None:
    problem = Problem(**{"B": 2, "H": 4, "D": 8, "dtype": "float64", **shape})
    method, same = build(name, problem, **params), build(other[0], problem, **other[1])
    inputs = type(method).inputs(problem, torch.Generator().manual_seed(7))
    torch.testing.assert_close(method(*inputs), same(*inputs), rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("name", "params"), [("lsh.reformer", {"bucket_size": 8}), ("sparse.topk", {}), ("sparse.window", {"window": 4})]
)
def test_a_second_derivative_is_refused_in_words(name: str, params: Params) -> None:
    method = build(name, Problem(B=1, H=1, N=20, D=8), **params)
    inputs = type(method).inputs(method.problem, torch.Generator().manual_seed(7))
    for x in inputs:
        x.requires_grad_()
    (slope,) = torch.autograd.grad(method(*inputs).square().sum(), inputs[0], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.sum().backward()
