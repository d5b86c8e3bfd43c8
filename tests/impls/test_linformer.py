"""Attention over projected keys is its definition, and that definition is what the paper says."""

import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnbench import Problem, build
from attnbench.api import Cell, padding_mask
from attnbench.registry import UnsupportedError, load

OURS: list[tuple[str, dict[str, Any]]] = [
    *(("linformer.linformer", {"sharing": sharing}) for sharing in ("none", "headwise", "key_value", "layerwise")),
    ("linformer.mean", {}),
    ("linformer.convolution", {}),
]
SHAPE: dict[str, Any] = {"B": 2, "H": 4, "D": 8, "dtype": "float64"}


def evaluated(method: Any, function: Any, key_mask: Tensor | None = None) -> list[Tensor]:
    """The output, and the gradient of each input and parameter."""
    p = method.problem
    inputs = [x.requires_grad_() for x in type(method).inputs(p, torch.Generator().manual_seed(7))]
    g = torch.randn(p.B, p.H, p.N, p.M, dtype=inputs[0].dtype, generator=torch.Generator().manual_seed(11))
    o = function(*inputs) if key_mask is None else function(*inputs, key_mask=key_mask)
    return [o.detach(), *torch.autograd.grad(o, [*inputs, *method.parameters()], g)]


def same(method: Any, key_mask: Tensor | None = None) -> None:
    got, want = (evaluated(method, function, key_mask) for function in (method, method.reference))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-10)


@pytest.mark.parametrize("shape", [{}, {"M": 5}, {"M": 12}, {"kv_heads": 2}, {"kv_heads": 1, "M": 5, "B": 1}], ids=str)
@pytest.mark.parametrize("N", [1, 2, 63, 257])
@pytest.mark.parametrize(("name", "params"), OURS, ids=str)
def test_values_and_all_gradients_are_those_of_the_definition(
    name: str, params: dict[str, Any], N: int, shape: dict[str, Any]
) -> None:
    same(build(name, Problem(**{**SHAPE, "N": N, **shape}), k=16, **params))


@pytest.mark.parametrize(("name", "params"), OURS, ids=str)
@settings(max_examples=20, deadline=None)
@given(N=st.integers(1, 40), k=st.integers(1, 45), share=st.floats(0, 1))
def test_hidden_keys_are_hidden_by_definition(name: str, params: dict[str, Any], N: int, k: int, share: float) -> None:
    mask = torch.rand(2, N, generator=torch.Generator().manual_seed(N)) >= share
    same(build(name, Problem(B=2, H=2, N=N, D=4, dtype="float64"), k=k, **params), mask)


@pytest.mark.parametrize(("name", "params"), OURS, ids=str)
def test_inputs_in_another_memory_order_give_the_same(name: str, params: dict[str, Any]) -> None:
    method: Any = build(name, Problem(**SHAPE, N=37), k=16, **params)
    inputs = type(method).inputs(method.problem, torch.Generator())
    torch.testing.assert_close(method(*(x.contiguous() for x in inputs)), method(*inputs), rtol=0, atol=1e-12)


class TestTheDefinition:
    """The reference, against what is known of it."""

    @pytest.mark.parametrize(("name", "params"), OURS, ids=str)
    def test_as_many_keys_as_tokens_projected_by_the_identity_are_softmax(self, name: str, params: dict[str, Any]) -> None:
        method: Any = build(name, Problem(**SHAPE, N=30), k=99, **params)
        inputs = type(method).inputs(method.problem, torch.Generator())
        with torch.no_grad():
            for parameter in method.parameters():
                identity = torch.eye(30) if name == "linformer.linformer" else torch.ones(())
                parameter.copy_(identity.expand_as(parameter))
            torch.testing.assert_close(method.reference(*inputs), method.exact(*inputs), rtol=0, atol=1e-12)

    @pytest.mark.parametrize("sharing", ["none", "headwise", "key_value", "layerwise"])
    def test_it_is_the_sum_that_the_paper_writes(self, sharing: str) -> None:
        method: Any = build("linformer.linformer", Problem(B=1, H=2, N=5, D=3, dtype="float64"), k=2, sharing=sharing)
        q, k, v = type(method).inputs(method.problem, torch.Generator())
        keys_by, values_by = (x.detach().expand(2, 2, 5) for x in (method.E, method.E if method.F is None else method.F))
        o = torch.zeros(1, 2, 5, 3, dtype=torch.float64)
        for h in range(2):
            keys = [sum(keys_by[h, s, j] * k[0, h, j] for j in range(5)) for s in range(2)]
            values = [sum(values_by[h, s, j] * v[0, h, j] for j in range(5)) for s in range(2)]
            for i in range(5):
                weights = [math.exp(float(q[0, h, i] @ key) / math.sqrt(3)) for key in keys]
                o[0, h, i] = sum(w * value for w, value in zip(weights, values, strict=True)) / sum(weights)
        torch.testing.assert_close(method.reference(q, k, v).detach(), o, rtol=0, atol=1e-12)

    def test_block_means_are_average_pooling(self) -> None:
        method: Any = build("linformer.mean", Problem(**SHAPE, N=60), k=12)
        q, k, v = type(method).inputs(method.problem, torch.Generator())
        keys, values = (torch.nn.functional.avg_pool1d(x.mT.flatten(0, 1), 5).unflatten(0, (2, 4)).mT for x in (k, v))
        o = torch.nn.functional.scaled_dot_product_attention(q, keys, values)
        torch.testing.assert_close(method(q, k, v), o, rtol=0, atol=1e-12)

    def test_the_last_mean_is_over_the_tokens_that_its_block_has(self) -> None:
        method: Any = build("linformer.mean", Problem(B=1, H=1, N=5, D=1, dtype="float64"), k=2)
        x = torch.tensor([1.0, 2.0, 3.0, 4.0, 6.0], dtype=torch.float64)[None, :, None, None]
        assert method.project(x, x)[0].flatten().tolist() == [2.0, 5.0]

    def test_a_convolution_of_ones_is_a_sum_over_blocks(self) -> None:
        method: Any = build("linformer.convolution", Problem(B=1, H=1, N=5, D=1, dtype="float64"), k=2)
        with torch.no_grad():
            method.kernel_of_keys.fill_(1)
        x = torch.tensor([1.0, 2.0, 3.0, 4.0, 6.0], dtype=torch.float64)[None, :, None, None]
        assert method.project(x, x)[0].flatten().tolist() == [6.0, 10.0]

    def test_it_is_torch_s_depthwise_convolution(self) -> None:
        method: Any = build("linformer.convolution", Problem(B=2, H=1, N=24, D=6, dtype="float64"), k=6)
        _, k, _ = type(method).inputs(method.problem, torch.Generator())
        kernel = method.kernel_of_keys[:, 0].mT.unsqueeze(1)
        want = torch.nn.functional.conv1d(k[:, 0].mT, kernel, stride=4, groups=6)
        got, _ = method.project(k.transpose(1, 2), k.transpose(1, 2))
        torch.testing.assert_close(got[:, :, 0].mT, want, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("name", "params"), OURS, ids=str)
def test_hidden_keys_and_values_cannot_be_seen_in_any_bit(name: str, params: dict[str, Any]) -> None:
    method: Any = build(name, Problem(B=3, H=2, N=33, D=8, padding=0.5), k=8, **params)
    mask = padding_mask(method.problem, "cpu")
    assert mask is not None
    q, k, v = type(method).inputs(method.problem, torch.Generator())
    hidden = ~mask[:, None, :, None]
    moved = method(q, k.masked_fill(hidden, 30), v.masked_fill(hidden, 1000), key_mask=mask)
    assert torch.equal(moved, method(q, k, v, key_mask=mask))


@pytest.mark.parametrize(("name", "params"), OURS, ids=str)
def test_where_no_key_is_visible_the_output_is_zero(name: str, params: dict[str, Any]) -> None:
    method: Any = build(name, Problem(B=2, H=2, N=20, D=4), k=8, **params)
    inputs = type(method).inputs(method.problem, torch.Generator())
    assert not method(*inputs, key_mask=torch.zeros(2, 20, dtype=torch.bool)).any()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(("name", "params"), OURS, ids=str)
def test_a_dtype_costs_no_more_accuracy_than_the_definition_in_it(name: str, params: dict[str, Any], dtype: str) -> None:
    method: Any = build(name, Problem(B=2, H=2, N=256, D=16, dtype=dtype), k=32, **params)
    got, eager = (evaluated(method, function) for function in (method, method.reference))
    inputs = [x.double().requires_grad_() for x in type(method).inputs(method.problem, torch.Generator().manual_seed(7))]
    p, wide = method.problem, method.double()
    g = torch.randn(p.B, p.H, p.N, p.M, dtype=got[0].dtype, generator=torch.Generator().manual_seed(11)).double()
    o = wide.reference(*inputs)
    exact = [o.detach(), *torch.autograd.grad(o, [*inputs, *wide.parameters()], g)]
    for x, e, r in zip(got, eager, exact, strict=True):
        slack = 4 * torch.finfo(x.dtype).eps * float(r.abs().max())
        assert float((x.double() - r).abs().max()) <= 2 * float((e.double() - r).abs().max()) + slack


def test_parameters_are_shared_as_the_paper_counts_them() -> None:
    problem = Problem(H=12, N=64)
    sizes = {
        sharing: [tuple(x.shape) for x in build("linformer.linformer", problem, k=16, sharing=sharing).parameters()]
        for sharing in ("none", "headwise", "key_value", "layerwise")
    }
    assert sizes == {
        "none": [(12, 16, 64)] * 2,
        "headwise": [(1, 16, 64)] * 2,
        "key_value": [(1, 16, 64)],
        "layerwise": [(1, 16, 64)],
    }
    # of 12 layers: 288, 24, 12 matrices, and 1
    assert [12 * sum(shape[0] for shape in shapes) for shapes in sizes.values()] == [288, 24, 12, 12]


def test_parameters_are_drawn_between_the_bounds() -> None:
    for x in build("linformer.linformer", Problem(N=512), k=100).parameters():
        assert 0.099 < float(x.detach().abs().max()) <= 0.1
        assert abs(float(x.detach().mean())) < 0.001
    for x in build("linformer.convolution", Problem(N=512), k=20).parameters():
        assert x.shape == (26, 8, 64)
        assert float(x.detach().abs().max()) <= 26**-0.5


def test_all_dtypes_round_the_same_parameters() -> None:
    drawn = []
    for dtype in ("float32", "float64", "bfloat16"):
        torch.manual_seed(3)
        (x, _) = build("linformer.linformer", Problem(N=64, dtype=dtype), k=8).parameters()
        drawn.append(x.detach().bfloat16())
    assert all(torch.equal(a, b) for a, b in pairwise(drawn))


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize(("name", "params"), [("linformer.linformer", {}), ("linformer.mean", {})], ids=str)
def test_samples_and_heads_that_share_a_projection_do_not_mix(name: str, params: dict[str, Any], dim: int) -> None:
    method: Any = build(name, Problem(B=3, H=3, N=70, D=8, dtype="float64"), k=8, **params)
    inputs, order = type(method).inputs(method.problem, torch.Generator()), torch.tensor([2, 0, 1])
    permuted = method(*(x.index_select(dim, order) for x in inputs))
    torch.testing.assert_close(permuted, method(*inputs).index_select(dim, order), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["linformer.linformer", "linformer.mean", "linformer.convolution"])
def test_a_causal_problem_is_refused_in_words(name: str) -> None:
    refused = load(name).refusal(Cell(method=name, problem=Problem(N=64, causal=True)))
    assert "mixes all positions" in (refused or "")
    assert load(name).refusal(Cell(method=name, problem=Problem(N=64, H=4, kv_heads=2, padding=0.5))) is None
    with pytest.raises(UnsupportedError, match="leaks it"):
        build(name, Problem(N=64, causal=True))


@pytest.mark.parametrize(
    ("name", "params"),
    [
        *(
            (name, {"k": k})
            for name in ("linformer.linformer", "linformer.mean", "linformer.convolution")
            for k in (0, 2.5, True)
        ),
        ("linformer.linformer", {"sharing": "kv"}),
    ],
)
def test_a_bad_parameter_is_refused_by_name(name: str, params: dict[str, Any]) -> None:
    refused = pytest.raises(ValueError, match=f"{next(iter(params))}=.*must be")
    with refused:
        build(name, Problem(N=8), **params)
    with refused:
        load(name).cost(Problem(N=8), params, "forward")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="colour"):
        load(name).cost(Problem(N=8), {"colour": 3}, "forward")  # type: ignore[arg-type]


@pytest.mark.cuda
@pytest.mark.parametrize(("name", "params"), OURS, ids=str)
def test_a_gpu_computes_the_same(name: str, params: dict[str, Any]) -> None:
    method: Any = build(name, Problem(B=2, H=4, N=1000, D=64), **params)
    inputs = [x.requires_grad_() for x in type(method).inputs(method.problem, torch.Generator().manual_seed(7))]
    leaves = [*inputs, *method.parameters()]
    want = torch.autograd.grad(method.reference(*inputs).square().sum(), leaves)
    on_gpu = method.cuda()
    there = [x.detach().cuda().requires_grad_() for x in inputs]
    got = torch.autograd.grad(on_gpu(*there).square().sum(), [*there, *on_gpu.parameters()])
    torch.testing.assert_close([x.cpu() for x in got], list(want), rtol=1e-3, atol=1e-3)
