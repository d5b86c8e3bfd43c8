"""A method says in words what it cannot do, and refuses what makes no sense."""

import math
from typing import Any

import pytest
import torch

from attnbench import Problem, build
from attnbench.api import Cell, Workload
from attnbench.registry import UnsupportedError, load

ALL = ["softmax.naive", "softmax.sdpa", "linear.full", "linear.chunked", "lsh.reformer_pytorch"]


def why_not(name: str, params: dict[str, Any] | None = None, **shape: Any) -> str | None:
    return load(name).why_not(Cell(method=name, problem=Problem(**{"N": 256, **shape}), params=params or {}))


@pytest.mark.parametrize(
    ("name", "params", "shape", "words"),
    [
        ("linear.full", {}, {"causal": True}, "linear.chunked does the causal form"),
        ("linear.chunked", {}, {"causal": False}, "linear.full does the one without a mask"),
        ("linear.chunked", {}, {"causal": True, "kv_heads": 2}, "kv_heads must equal H"),
        ("lsh.reformer_pytorch", {}, {"N": 192}, "must be a multiple of 2 * bucket_size = 128"),
        ("lsh.reformer_pytorch", {}, {"M": 32}, "M=32 must equal D=64"),
        ("lsh.reformer_pytorch", {}, {"kv_heads": 2}, "kv_heads must equal H"),
        ("lsh.reformer_pytorch", {"allow_duplicate_attention": False}, {}, "their logits rise by 20.7"),
        ("lsh.reformer_pytorch", {}, {"dtype": "bfloat16", "causal": True}, "4 times too large"),
        ("lsh.reformer_pytorch", {"attend_across_buckets": False}, {"dtype": "float16"}, "4 times too large"),
    ],
)
def test_an_unsupported_cell_says_why(name: str, params: dict[str, Any], shape: dict[str, Any], words: str) -> None:
    assert words in (why_not(name, params, **shape) or "")
    with pytest.raises(UnsupportedError, match=name):
        build(name, Problem(**{"N": 256, **shape}), **params)


@pytest.mark.parametrize(
    ("name", "params", "shape"),
    [
        *(
            (name, {}, {"causal": causal, "kv_heads": 2, "M": 16})
            for name in ("softmax.naive", "softmax.sdpa")
            for causal in (False, True)
        ),
        ("linear.full", {}, {"kv_heads": 2, "M": 16}),
        ("linear.chunked", {}, {"causal": True, "M": 16, "N": 77}),
        ("lsh.reformer_pytorch", {}, {"causal": True}),
        ("lsh.reformer_pytorch", {}, {"dtype": "bfloat16"}),
        ("lsh.reformer_pytorch", {"rounds": 1, "allow_duplicate_attention": False}, {}),
        ("lsh.reformer_pytorch", {"rounds": 1}, {"dtype": "float16", "causal": True}),
    ],
)
def test_what_is_supported_has_no_reason_against_it(name: str, params: dict[str, Any], shape: dict[str, Any]) -> None:
    assert why_not(name, params, **shape) is None


BAD: list[tuple[str, dict[str, Any], bool]] = [
    ("linear.chunked", {"chunk": 0}, True),
    ("linear.chunked", {"chunk": 6.4}, True),
    ("linear.chunked", {"chunk": "64"}, True),
    ("linear.chunked", {"eps": -1e-6}, True),
    ("linear.full", {"eps": math.nan}, False),
    ("linear.full", {"eps": math.inf}, False),
    ("linear.full", {"eps": "small"}, False),
    ("lsh.reformer_pytorch", {"rounds": 0}, False),
    ("lsh.reformer_pytorch", {"bucket_size": 0}, False),
    ("lsh.reformer_pytorch", {"bucket_size": "64"}, False),
    ("lsh.reformer_pytorch", {"attend_across_buckets": "no"}, False),
]


@pytest.mark.parametrize(("name", "params", "causal"), BAD)
def test_a_bad_parameter_is_refused_by_name(name: str, params: dict[str, Any], causal: bool) -> None:
    problem = Problem(N=256, causal=causal)
    assert why_not(name, params, causal=causal) is None
    with pytest.raises(ValueError, match=f"{next(iter(params))}=.*must be"):
        build(name, problem, **params)
    with pytest.raises(ValueError, match=f"{next(iter(params))}=.*must be"):
        load(name).cost(problem, params, Workload.FORWARD)


@pytest.mark.parametrize("name", ALL)
def test_an_unknown_parameter_is_a_type_error(name: str) -> None:
    problem = Problem(N=256, causal=name == "linear.chunked")
    assert why_not(name, {"colour": 3}, causal=problem.causal) is None
    with pytest.raises(TypeError, match="colour"):
        build(name, problem, colour=3)
    with pytest.raises(TypeError, match="colour"):
        load(name).cost(problem, {"colour": 3}, Workload.FORWARD)


@pytest.mark.parametrize("name", ALL)
def test_inputs_are_dense_in_the_native_layout(name: str) -> None:
    method = load(name)
    for x in method.inputs(Problem(B=2, H=4, N=64, D=8), torch.Generator()):
        native = x if method.layout == "BHND" else x.transpose(1, 2)
        assert x.shape == (2, 4, 64, 8)
        assert native.is_contiguous()
