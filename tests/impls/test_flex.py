"""FlexAttention: by its eager form it keeps the contract, its blocks skip what is hidden, and compiled it is the same."""

from importlib import import_module
from itertools import product
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.attention import flex_attention

from attnbench import Problem, build
from attnbench.api import DType, Workload
from attnbench.forms import packed
from attnbench.registry import load
from tests.impls.contract.calls import evaluated, inputs_of, mapped
from tests.impls.contract.subjects import Variant
from tests.impls.contract.test_causality import test_the_future_changes_nothing_before_it as nothing_from_the_future
from tests.impls.contract.test_masks import (
    test_a_masked_call_is_its_definition_and_hidden_keys_get_no_gradient as hidden_keys_do_not_exist,
)
from tests.impls.contract.test_values import test_values_and_gradients_are_those_of_the_definition as same_values
from tests.impls.sparse.strategies import PATTERNS, Shape, factorised, neighbours

flex: Any = import_module("attnbench_impls.sparse.library.flex")
flex_blocks: Any = import_module("attnbench_impls.sparse.library.flex_blocks")
layouts: Any = import_module("attnbench_impls.sparse.library.flex_layout")
blocks: Any = import_module("attnbench_impls.softmax.library.block_mask")

SOFTMAX = Variant("softmax.flex")
SPARSE = [
    Variant(f"sparse.{name}_flex", params)
    for name, params in (
        ("strided", {"stride": 5}),
        ("strided", {"stride": 5, "mode": "per_head", "convention": "code"}),
        ("strided", {"stride": 5, "mode": "by_layer", "layer": 1}),
        ("fixed", {"stride": 7, "c": 3}),
        ("fixed", {"stride": 6, "c": 2, "mode": "by_layer", "layer": 1}),
        ("fixed", {"stride": 6, "c": 2, "mode": "per_head", "distinct": False}),
        ("local", {"stride": 9}),
        ("atrous", {"stride": 7, "reach": 3}),
        ("atrous", {"stride": 70}),
        ("window", {"window": 20}),
        ("longformer", {"window": 12, "dilation": 2, "globals": 3, "dilated_heads": 1}),
        ("longformer", {"window": 12, "dilation": 5, "globals": 7}),
    )
]


def strided(problem: Problem, **params: Any) -> Any:
    return build("sparse.strided_flex", problem, **params)


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """FlexAttention's own eager form, which is dense and takes float64, and has no backward here."""
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    monkeypatch.setattr(flex_attention, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)
    forward_only = classmethod(lambda _, cell: "no backward" if cell.workload is Workload.FORWARD_BACKWARD else None)
    for kind in (load("softmax.flex"), flex.FlexSparse):
        monkeypatch.setattr(kind, "why_not", forward_only)
        monkeypatch.setattr(kind, "dtypes", tuple(DType))


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("variant", [SOFTMAX, *SPARSE], ids=str)
def test_it_is_its_definition_and_hides_the_future(variant: Variant) -> None:
    for N in (1, 63, 150, *((128, 130) if variant is SOFTMAX else ())):
        same_values(variant, N)
    nothing_from_the_future(variant)


@pytest.mark.usefixtures("eager")
def test_where_calls_are_merged_it_is_its_definition_by_their_logsumexp_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on CUDA, and not by that of a sink, as on a CPU."""
    make = flex.unions
    monkeypatch.setattr(flex, "unions", lambda *args, sink: make(*args, sink=False))
    for N in (1, 63, 150):
        same_values(SPARSE[0], N)
    nothing_from_the_future(SPARSE[0])


@pytest.mark.usefixtures("eager")
def test_one_call_is_enough_for_every_pattern_but_the_merged_strided_one() -> None:
    """So no other one is merged, and each is the same with a sink and without."""
    merged = set()
    for variant, causal, N in product(SPARSE, (False, True), (1, 63, 150)):
        pattern = variant.build(Problem(B=1, H=4, N=N, D=8, causal=causal)).pattern
        if any(len(share.layouts) > 1 for share in layouts.shares(pattern, Shape(N, 4, causal))):
            merged.add(str(variant))
    assert merged == {str(SPARSE[0])}


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("N", [1, 100, 300])
def test_hidden_keys_do_not_exist_and_who_sees_none_gives_zero(N: int) -> None:
    hidden_keys_do_not_exist(SOFTMAX, N)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("lengths", [(100, 28, 130, 1, 41), (300,), (128, 128), (1,) * 5], ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_documents_in_one_row_are_one_call_and_see_nothing_of_each_other(lengths: tuple[int, ...], causal: bool) -> None:
    alone = Problem(B=1, H=4, kv_heads=2, N=sum(lengths), D=8, causal=causal, dtype="float64")
    method: Any = packed(load("softmax.flex"))(alone.model_copy(update={"documents": lengths}))
    inputs = type(method).inputs(method.problem, torch.Generator().manual_seed(7))
    parts = zip(*(x.split(lengths, 2) for x in inputs), strict=True)
    want = torch.cat([build("softmax.flex", alone).reference(*part) for part in parts], 2)
    method._flex = Mock(wraps=method._flex)
    torch.testing.assert_close(method(*inputs), want, rtol=0, atol=1e-10)
    assert method._flex.call_count == 1


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("sign", [1, -1])
def test_scores_that_a_sink_cannot_tell_are_refused(sign: int) -> None:
    problem = Problem(B=1, H=1, N=150, D=4, causal=True)
    q, k, v = torch.ones(1, 1, 150, 4), torch.full((1, 1, 150, 4), sign / 2), torch.randn(1, 1, 150, 4)
    with pytest.raises(ValueError, match="beyond ±64"):
        strided(problem)(q, 95 * k, v)
    torch.testing.assert_close(strided(problem)(q, 58 * k, v), strided(problem).reference(q, 58 * k, v), rtol=0, atol=1e-4)
    assert not strided(problem, mode="by_layer")(q, 95 * k, v).isnan().any()


@pytest.mark.usefixtures("eager")
def test_blocks_are_built_once_for_a_length_and_those_that_inference_made_serve_training() -> None:
    problem = Problem(B=1, H=1, N=300, D=8, causal=True)
    q, full, method = torch.zeros(1, 1, 300, 8), build("softmax.flex", problem), strided(problem)
    mask_of: Any = full._mask_of
    assert mask_of((300,), q.device) is mask_of((300,), q.device)
    assert mask_of((200,), q.device).shape == (1, 1, 200, 200)
    with torch.inference_mode():
        method(q, q, q)
    assert method._calls(q) is method._calls(q)
    lists = [call.back for union in method._calls(q) for call in union.calls]
    assert not any(x.is_inference() for x in lists if x is not None)
    assert [call.layout.first.shape[-1] for union in method._calls(q[:, :, :100]) for call in union.calls] == [100, 100]


@given(PATTERNS, st.builds(Shape, st.integers(1, 40), st.integers(1, 4), st.booleans()))
@settings(max_examples=150, deadline=None)
def test_the_ranges_of_all_layouts_hold_each_pair_once(pattern: Any, shape: Any) -> None:
    N, count = shape.N, torch.zeros(shape.H, shape.N, shape.N, dtype=torch.int64)
    for share in layouts.shares(pattern, shape):
        for x in share.layouts:
            tokens = torch.arange(N) if x.order is None else x.order
            for h, head in enumerate(share.heads):
                row = h % x.first.shape[0]
                keys = tokens if x.cells is None else torch.cat([tokens, x.cells[h % x.cells.shape[0]]])
                j = torch.arange(len(keys))
                seen = ((j >= x.first[row, ..., None]) & (j < x.stop[row, ..., None])).sum(0)
                count[head, tokens] += torch.zeros(N, N, dtype=torch.int64).index_add_(1, keys, seen)
    assert torch.equal(count, pattern.seen(shape).long())


def listed(number: Tensor, which: Tensor, N: int, S: int) -> Tensor:
    """The listed blocks as bool [rows, N, S]."""
    first = torch.arange(which.shape[-1]) < number[..., None]
    grid = torch.zeros(first.shape, dtype=torch.bool).scatter(-1, which.long(), first)
    return grid.repeat_interleave(128, 1).repeat_interleave(128, 2)[:, :N, :S]


def pairs_of(mask: Any, dense: Tensor) -> int:
    """How many of [rows, N, S] are met: each visible pair is in one list of blocks, and no hidden one in that of whole ones."""
    lists = ((mask.kv_num_blocks, mask.kv_indices), (mask.full_kv_num_blocks, mask.full_kv_indices))
    # rows beyond N, and keys beyond N, are no pairs
    partial, full = (listed(number.flatten(0, 1), which.flatten(0, 1), *dense.shape[1:]) for number, which in lists)
    assert not (partial & full).any()
    assert ((partial | full) | ~dense).all()
    assert (dense | ~full).all()
    return int((partial | full).sum())


@given(pattern=PATTERNS, N=st.integers(1, 700), causal=st.booleans())
# one pair short of whole
@example(pattern=neighbours.Window(508), N=300, causal=False)
@settings(max_examples=25, deadline=None)
def test_blocks_are_those_of_the_ranges(pattern: Any, N: int, causal: bool) -> None:
    for x in (x for share in layouts.shares(pattern, Shape(N, 2, causal)) for x in share.layouts):
        mask = flex_blocks.block_mask(x.first, x.stop, x.keys, torch.device("cpu"))
        j = torch.arange(x.keys)
        dense = ((j >= x.first[..., None]) & (j < x.stop[..., None])).any(1)
        assert pairs_of(mask, dense) == flex_blocks.pairs_visited(x.first, x.stop, x.keys)


@settings(max_examples=40, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 400), min_size=1, max_size=5),
    causal=st.booleans(),
    seed=st.integers(0, 999),
    share=st.sampled_from([None, 0.0, 0.99, 1.0]),
)
def test_blocks_are_those_of_the_dense_mask(lengths: list[int], causal: bool, seed: int, share: float | None) -> None:
    keys, N, documents = None, sum(lengths), tuple(lengths) if len(lengths) > 1 else ()
    if share is not None:
        keys = torch.rand(2, N, generator=torch.Generator().manual_seed(seed)) >= share
        keys[0, : N // 2] = True
    if keys is None and not causal and not documents:
        return
    dense = torch.ones(1, N, N, dtype=torch.bool) if keys is None else keys[:, None, :].expand(2, N, N)
    dense = dense.tril() if causal else dense
    if documents:
        dense = dense & torch.block_diag(*(torch.ones(n, n) for n in documents)).bool()
    pairs_of(blocks.block_mask(N, torch.device("cpu"), causal=causal, key_mask=keys, documents=documents), dense)


@pytest.mark.parametrize(
    ("pattern", "most"),
    [
        (factorised.Strided(128), 0.10),
        (factorised.Strided(128, "by_layer", 1), 0.04),
        (factorised.Fixed(128, "merged", 0, 32), 0.19),
        (neighbours.Window(128), 0.07),
        (neighbours.Longformer(128, 4, 2), 0.15),
    ],
    ids=str,
)
def test_blocks_really_are_skipped(pattern: Any, most: float) -> None:
    """Of 32 × 32 blocks, of which full causal attention has 52 %, and the natural order of strided and fixed too."""
    shape = Shape(4096, 1, causal=True)
    parts = [x for share in layouts.shares(pattern, shape) for x in share.layouts]
    assert sum(flex_blocks.pairs_visited(x.first, x.stop, x.keys) for x in parts) <= most * 4096**2


FULL: dict[str, Any] = {"B": 2, "D": 16}
LONG: dict[str, Any] = {"N": 1000, "D": 64, "causal": True}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "params", "shape"),
    [
        ("softmax.flex", {}, {**FULL, "N": 200, "causal": True, "kv_heads": 2}),
        ("softmax.flex", {}, {**FULL, "N": 63, "M": 8, "dtype": "bfloat16"}),
        *(("softmax.flex", {}, {"N": N, "D": D, "causal": True}) for N, D in ((24, 8), (40, 16), (136, 8))),
        ("softmax.flex", {}, {**FULL, "N": 300, "causal": True, "padding": 0.7}),
        ("softmax.flex", {}, {**FULL, "N": 300, "padding": 0.7, "dtype": "float16"}),
        ("sparse.window_flex", {"window": 100}, LONG),
        ("sparse.strided_flex", {}, LONG),
        ("sparse.strided_flex", {}, {**LONG, "dtype": "bfloat16", "causal": False}),
        ("sparse.strided_flex", {"mode": "per_head"}, {**LONG, "kv_heads": 2, "M": 32}),
        ("sparse.fixed_flex", {}, LONG),
        ("sparse.fixed_flex", {"distinct": False}, {**LONG, "kv_heads": 2}),
        ("sparse.fixed_flex", {"c": 4}, {**LONG, "kv_heads": 2}),
        ("sparse.atrous_flex", {"stride": 8}, {**LONG, "causal": False}),
        ("sparse.longformer_flex", {"window": 64, "dilation": 3, "globals": 5}, LONG),
    ],
    ids=str,
)
def test_compiled_it_is_the_same(name: str, params: dict[str, Any], shape: dict[str, Any]) -> None:
    method: Any = build(name, Problem(**{"B": 1, "H": 4, **shape}), **params)
    inputs = type(method).inputs(method.problem, torch.Generator().manual_seed(0))
    shares = (0.3, 0.9, 1.0) if method.problem.padding else ()
    for mask in [{"key_mask": torch.rand(2, 300) > share} for share in shares] or [{}]:
        with torch.no_grad():
            o = method(*inputs, **mask)
        eps = (8 if name == "softmax.flex" else 16) * torch.finfo(o.dtype).eps
        want = method.reference(*(x.double() for x in inputs), **mask).to(o.dtype)
        torch.testing.assert_close(o, want, rtol=eps, atol=eps)


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
def test_compiled_it_keeps_documents_apart(causal: bool) -> None:
    row = Problem(B=1, H=4, kv_heads=2, N=300, D=16, causal=causal, documents=(100, 28, 130, 1, 41))
    method: Any = packed(load("softmax.flex"))(row)
    inputs = type(method).inputs(row, torch.Generator().manual_seed(0))
    torch.testing.assert_close(method(*inputs), method.reference(*inputs), rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_it_compiles_once_for_a_shape_whatever_the_mask_says() -> None:
    from torch._dynamo.utils import counters

    method = build("softmax.flex", Problem(B=2, H=1, N=150, D=16, padding=0.5))
    inputs = type(method).inputs(method.problem, torch.Generator().manual_seed(0))
    method(*inputs, key_mask=torch.rand(2, 150) > 0.5)
    before = counters["stats"]["unique_graphs"]
    for _ in range(3):
        method(*inputs, key_mask=torch.rand(2, 150) > 0.5)
    assert counters["stats"]["unique_graphs"] == before


@pytest.mark.cuda
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("variant", [SOFTMAX, *SPARSE], ids=str)
def test_a_gpu_differentiates_it(variant: Variant, causal: bool) -> None:
    method = variant.build(Problem(B=2, H=4, kv_heads=2, N=300, D=64, causal=causal))
    inputs = mapped(inputs_of(method), lambda x: x.detach().cuda().requires_grad_())
    g = torch.randn_like(inputs[0])
    got, want = (evaluated(function, inputs, g, ()) for function in (method, method.reference))
    torch.testing.assert_close(got, want, rtol=0.02, atol=0.02)
