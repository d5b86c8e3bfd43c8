"""Sparse patterns by a dense mask: the definition, with hidden keys, and what the mask takes."""

from importlib import import_module
from typing import Any

import pytest
import torch

from attnbench import Problem
from attnbench.api import Cell, Workload, padding_mask
from attnbench.measure.profiler_memory import torch_profiler_peak

masked: Any = import_module("attnbench_impls.sparse.masked")
masked_cost: Any = import_module("attnbench_impls.sparse.masked_cost")

PATTERNS: list[tuple[str, dict[str, Any]]] = [
    ("Strided", {}),
    ("Strided", {"stride": 5, "mode": "per_head", "convention": "code"}),
    ("Fixed", {}),
    ("Fixed", {"stride": 6, "c": 2, "mode": "by_layer", "layer": 1}),
    ("Fixed", {"stride": 6, "c": 2, "mode": "by_layer", "layer": 1, "distinct": False}),
    ("Local", {"stride": 9}),
    ("Atrous", {"stride": 7, "reach": 3}),
    ("Window", {"window": 20}),
    ("Longformer", {"window": 12, "dilation": 2, "globals": 3, "dilated_heads": 1}),
]
BOTH = Workload.FORWARD_BACKWARD


def build(name: str, problem: Problem, **params: Any) -> Any:
    return getattr(masked, f"Masked{name}")(problem, **params)


@pytest.mark.parametrize("shape", [{}, {"kv_heads": 2, "M": 5}], ids=str)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("N", [1, 63, 257])
@pytest.mark.parametrize(("name", "params"), PATTERNS, ids=str)
def test_it_is_the_definition_with_its_gradients(
    name: str,
    params: dict[str, Any],
    N: int,
    causal: bool,
    shape: dict[str, Any],
    inputs_of: Any,
    gradient_of: Any,
    evaluate: Any,
) -> None:
    method = build(name, Problem(**{"B": 2, "H": 4, "N": N, "D": 8, "causal": causal, "dtype": "float64", **shape}), **params)
    inputs, g = inputs_of(method), gradient_of(method)
    got, want = (evaluate(method, function, inputs, g) for function in ("forward", "reference"))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-10)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("name", "params"), PATTERNS, ids=str)
def test_hidden_keys_do_not_exist_and_who_sees_none_gives_zero_and_takes_none(
    name: str, params: dict[str, Any], causal: bool, inputs_of: Any, gradient_of: Any
) -> None:
    method = build(name, Problem(B=3, H=2, N=64, D=8, causal=causal, dtype="float64"), **params)
    inputs, g = inputs_of(method), gradient_of(method)
    key_mask = torch.rand(3, 64) > 0.5
    key_mask[0], key_mask[1, :40] = False, False
    outputs = method(*inputs, key_mask=key_mask), method.reference(*inputs, key_mask=key_mask)
    torch.testing.assert_close(*outputs, rtol=0, atol=1e-10)
    got, want = (torch.autograd.grad(o, inputs, g) for o in outputs)
    torch.testing.assert_close(got, want, rtol=0, atol=1e-10)
    assert not outputs[0][0].any()
    assert not any(x[0].any() for x in got)


def test_a_kernel_whose_empty_rows_are_no_numbers_changes_nothing(monkeypatch: pytest.MonkeyPatch, inputs_of: Any) -> None:
    """No row of the mask that a kernel is given is empty."""
    given: list[torch.Tensor] = []
    fused = torch.nn.functional.scaled_dot_product_attention

    def watched(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, attn_mask: torch.Tensor, **rest: Any) -> torch.Tensor:
        given.append(attn_mask)
        return fused(q, k, v, attn_mask, **rest)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", watched)
    method = build("Fixed", Problem(B=2, H=2, N=30, D=8, causal=True), stride=6, c=2, mode="by_layer", layer=1)
    o = method(*inputs_of(method))
    method(*inputs_of(method), key_mask=torch.zeros(2, 30, dtype=torch.bool))
    assert all(bool(mask.any(-1).all()) for mask in given)
    assert not o[:, 0, :4].any()
    assert o[:, 0, 5:].any()


def test_the_future_changes_nothing_before_it(inputs_of: Any) -> None:
    for name, params in PATTERNS:
        method = build(name, Problem(B=1, H=2, N=65, D=8, causal=True), **params)
        q, k, v = (x.detach() for x in inputs_of(method))
        o = method(q, k, v)
        for x in (q, k, v):
            x[:, :, 40:] = 3 - x[:, :, 40:]
        assert torch.equal(method(q, k, v)[:, :, :40], o[:, :, :40])


@pytest.mark.parametrize(
    ("name", "params", "heads"),
    [
        ("Strided", {}, 1),
        ("Strided", {"mode": "per_head"}, 4),
        ("Fixed", {"c": 2}, 4),
        ("Fixed", {"distinct": False}, 1),
        ("Fixed", {"distinct": False, "mode": "by_layer", "layer": 1}, 1),
        ("Fixed", {"stride": 8, "c": 8}, 1),
        ("Longformer", {"dilation": 2}, 1),
        ("Longformer", {"dilation": 2, "dilated_heads": 1}, 4),
        ("Longformer", {"dilation": 1, "dilated_heads": 1}, 1),
    ],
)
def test_one_mask_is_kept_for_a_length_and_one_head_of_it_where_all_are_alike(
    name: str, params: dict[str, Any], heads: int, inputs_of: Any
) -> None:
    method = build(name, Problem(B=1, H=4, N=64, D=8, causal=True), **params)
    inputs = [x.detach() for x in inputs_of(method)]
    method(*inputs)
    first = method._mask(inputs[0])
    method(*inputs)
    assert method._mask(inputs[0]) is first
    assert first.seen.shape == (heads, 64, 64)
    assert method(*(x[:, :, :30] for x in inputs)).shape == (1, 4, 30, 8)


def test_a_mask_that_inference_made_serves_training(inputs_of: Any) -> None:
    method = build("Fixed", Problem(B=1, H=2, N=64, D=8), c=2, mode="by_layer", layer=1)
    inputs = inputs_of(method)
    with torch.inference_mode():
        method(*inputs)
    method(*inputs).sum().backward()
    assert bool(inputs[0].grad.any())


SHAPES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("Strided", {}, {"N": 512}),
    ("Fixed", {}, {"N": 512, "kv_heads": 2, "dtype": "float64"}),
    ("Window", {"window": 32}, {"N": 512, "B": 8, "padding": 0.5}),
    ("Fixed", {"mode": "by_layer", "layer": 1}, {"N": 512}),
    ("Strided", {}, {"N": 512, "M": 32, "kv_heads": 2}),
    ("Strided", {}, {"N": 512, "M": 32, "dtype": "bfloat16"}),
]


@pytest.mark.parametrize("workload", [Workload.FORWARD, BOTH])
@pytest.mark.parametrize(("name", "params", "shape"), SHAPES, ids=str)
def test_the_predicted_peak_is_what_torch_allocates(
    name: str, params: dict[str, Any], shape: dict[str, Any], workload: Workload, inputs_of: Any, gradient_of: Any
) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    method = build(name, Problem(**{"B": 2, "H": 4, "D": 64, "causal": True, **shape}), **params)
    inputs, g, mask = inputs_of(method), gradient_of(method), padding_mask(method.problem, "cpu")

    def call() -> object:
        if workload is BOTH:
            return torch.autograd.grad(method(*inputs, key_mask=mask), inputs, g)
        with torch.no_grad():
            return method(*inputs, key_mask=mask)

    call()
    peak = torch_profiler_peak(call).bytes
    torch.set_num_threads(threads)
    assert peak == pytest.approx(type(method).cost(method.problem, params, workload).peak_bytes, rel=0.1)


@pytest.mark.parametrize(("name", "params"), PATTERNS, ids=str)
def test_padding_lessens_what_is_needed_and_never_what_is_executed(name: str, params: dict[str, Any]) -> None:
    problem = Problem(B=3, H=4, N=50, D=8, M=8, causal=True, padding=0.6)
    method = build(name, problem, **params)
    needed = sum(int(method.pattern.seen(method.shape(50))[..., :n].sum()) for n in problem.lengths)
    for workload, passes, products in ((Workload.FORWARD, 1, 2), (BOTH, 3, 7)):
        cost = type(method).cost(problem, params, workload)
        assert cost.exact_flops == pytest.approx(passes * 4 * 8 * needed)
        assert cost.executed_flops == products * 2 * 8 * 3 * 4 * 50 * 50


def test_padding_is_for_it_to_take_but_not_in_decoding() -> None:
    problem = Problem(N=64, D=8, causal=True, padding=0.5)
    for workload, words in ((BOTH, None), (Workload.DECODE, "")):
        said = masked.MaskedWindow.refusal(Cell(method="x", problem=problem, workload=workload))
        assert (said is None) is (words is None)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("name", "params"), PATTERNS, ids=str)
def test_a_gpu_gives_zero_where_nothing_is_seen(name: str, params: dict[str, Any], dtype: str, inputs_of: Any) -> None:
    method = build(name, Problem(B=2, H=4, N=100, D=64, causal=True, dtype=dtype), **params)
    inputs = [x.detach().cuda().requires_grad_() for x in inputs_of(method)]
    key_mask = torch.arange(100, device="cuda") >= torch.tensor([[0], [60]], device="cuda")
    for keywords in ({}, {"key_mask": key_mask}):
        o = method(*inputs, **keywords)
        want = method.reference(*(x.double() for x in inputs), **keywords).to(o.dtype)
        torch.testing.assert_close(o, want, rtol=0.02, atol=0.02)
        assert all(bool(x.isfinite().all()) for x in torch.autograd.grad(o.sum(), inputs))
