"""Our Triton kernels, by Triton's interpreter, against their definitions."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attnbench.api import Workload
from tests.impls.contract.calls import no_worse, same, turned
from tests.impls.contract.subjects import cost_of
from tests.impls.kernels.conftest import Ask
from tests.impls.kernels.kernel_calls import Kernels, linear, sparse, vq

TWO: dict[str, Any] = {"H": 2, "D": 20, "M": 9}
ODD: dict[str, Any] = {"D": 20, "M": 9}
SHARED: dict[str, Any] = {**TWO, "kv_heads": 1}
BY_LAYER: dict[str, Any] = {"mode": "by_layer", "layer": 1}
OF_ONE_TOKEN: tuple[tuple[str, dict[str, Any]], ...] = (
    ("strided", {"stride": 3}),
    ("fixed", {"stride": 3}),
    ("longformer", {}),
)

# lengths that do and do not end with a chunk, block, group, tile or segment; no table, one, and many; every pattern and mode
CASES: list[Kernels] = [
    *(linear(N, **TWO) for N in (1, 64, 257)),
    linear(70, **SHARED),
    *(linear(150, D=D, M=M) for D, M in ((80, 16), (16, 80), (1, 1))),
    sparse("strided", {"stride": 5}, 63, **ODD),
    sparse("strided", {"stride": 7, "mode": "per_head"}, 64, **SHARED),
    sparse("fixed", {"stride": 20, "c": 5}, 63, **TWO),
    sparse("fixed", {"stride": 20, "c": 8}, 50, **SHARED, causal=False),
    sparse("fixed", {"stride": 20, "c": 3, **BY_LAYER}, 40, **SHARED),
    sparse("atrous", {"stride": 3, "reach": 4}, 63, **ODD, causal=False),
    sparse("window", {"window": 33}, 64, **ODD, causal=False),
    sparse("longformer", {"window": 9, "globals": 3}, 64, **ODD),
    # long rows and columns, shared out among programs
    sparse("longformer", {"window": 5, "globals": 3}, 50, share=16, H=2, kv_heads=1, causal=False),
    *(sparse(name, params, 1, H=2) for name, params in OF_ONE_TOKEN),
    vq(20, N=63, **ODD),
    vq(9, codes=5, N=31, B=2, H=4, kv_heads=2),
    vq(16, N=50, through_table=False),
    *(vq(block, N=N) for block, N in ((64, 64), (100, 33), (1, 5), (3, 1), (3, 2))),
    # two segments, which are one below 129 tokens
    vq(16, codes=20, N=150, causal=False),
    vq(16, N=33, through_table=False, causal=False),
    *(vq(16, **shape, causal=False) for shape in ({"N": 1}, {"N": 63, **ODD}, {"H": 3, "kv_heads": 1})),
]
# longer ones than any_kernels draws, and options that it leaves out
MORE: list[Kernels] = [
    *(linear(150, name, **TWO) for name in ("relu", "squared_relu")),
    sparse("strided", {"stride": 3, "convention": "code"}, 40, **ODD, causal=False),
    sparse("fixed", {"stride": 32, "c": 8, "mode": "per_head", "distinct": False}, 64, **SHARED),
    sparse("longformer", {"window": 9, "globals": 3, "dilation": 3, "dilated_heads": 1}, 40, **SHARED, causal=False),
    sparse("longformer", {"window": 5, "globals": 3, "dilation": 3, "dilated_heads": 1}, 50, share=16, H=2, causal=False),
    sparse("longformer", {"window": 3, "globals": 50}, 63, causal=False),
    sparse("local", {"stride": 40}, 200, **ODD),
    sparse("local", {"stride": 300, "convention": "code"}, 64, causal=False),
    *(sparse(name, params, 1, H=2, causal=False) for name, params in OF_ONE_TOKEN),
    sparse("strided", {"stride": 6}, 200, H=2, causal=False, kv_heads=1),
    sparse("fixed", {"stride": 50, "c": 2}, 257, B=2, H=3),
    sparse("atrous", {"stride": 7}, 257, H=2),
    sparse("longformer", {"window": 64, "globals": 2, "dilation": 2}, 257, H=4, kv_heads=2),
    vq(100, codes=100, N=400, D=40, M=70),
    vq(16, codes=70, N=300, B=2, H=2, causal=False),
]


@pytest.mark.parametrize("kernels", [*CASES, *(pytest.param(each, marks=pytest.mark.slow) for each in MORE)], ids=str)
def test_values_and_gradients_are_those_of_the_definition(kernels: Kernels, ask: Ask) -> None:
    same(kernels.results(ask), kernels.call.exact(), 1e-5)


@st.composite
def any_kernels(draw: Any) -> Kernels:
    """Few tokens, groups and blocks, so that few programs are to be interpreted."""
    kind = draw(st.sampled_from(["linear", "strided", "fixed", "longformer", "vq"]))
    H, kv_heads = draw(st.sampled_from([(1, 1), (2, 2), (2, 1)]))
    shape = {"D": draw(st.integers(1, 40)), "M": draw(st.integers(1, 40)), "H": H, "kv_heads": kv_heads}
    if kind == "linear":
        return linear(draw(st.integers(1, 140)), B=draw(st.integers(1, 2)), **shape)
    N = draw(st.integers(1, 70))
    shape |= {"causal": draw(st.booleans())}
    if kind == "vq":
        block, codes = draw(st.integers(max(1, N // 6), 80)), draw(st.integers(1, 40))
        return vq(block, codes, through_table=draw(st.booleans()), N=N, **shape)
    mode = draw(st.sampled_from(["merged", "per_head", "by_layer"]))
    params = {
        "strided": {"stride": draw(st.integers(1, 6)), "mode": mode},
        "fixed": {"stride": draw(st.integers(9, 40)), "c": draw(st.integers(1, 9)), "mode": mode},
        "longformer": {
            **{"window": draw(st.integers(1, 70)), "dilation": draw(st.integers(1, 4)), "globals": draw(st.integers(0, 4))}
        },
    }
    return sparse(kind, params[kind], N, **shape)


@pytest.mark.parametrize("examples", [4, pytest.param(40, marks=pytest.mark.slow)])
def test_any_shape_will_do(examples: int, ask: Ask) -> None:
    @settings(max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(kernels=any_kernels())
    def is_the_definition(kernels: Kernels) -> None:
        same(kernels.results(ask), kernels.call.exact(), 1e-5)

    is_the_definition()


@pytest.mark.parametrize(
    "kernels",
    [
        linear(160, D=32, M=32, dtype="bfloat16"),
        sparse("strided", {"stride": 4}, 64, D=32, dtype="bfloat16", causal=False),
        sparse("longformer", {"window": 9}, 64, D=32, dtype="float16", causal=False),
        vq(16, codes=10, N=64, D=32, dtype="bfloat16"),
        vq(16, codes=10, N=64, D=32, dtype="float16", causal=False),
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in (
                *(linear(160, D=32, M=32, dtype=dtype) for dtype in ("float32", "float16")),
                vq(16, codes=10, N=64, D=32, dtype="float16"),
                vq(16, codes=10, N=64, D=32, dtype="bfloat16", causal=False),
            )
        ),
    ],
    ids=str,
)
def test_the_error_is_within_twice_that_of_the_definition_in_the_same_dtype(kernels: Kernels, ask: Ask) -> None:
    got, exact, dtype = kernels.results(ask), kernels.call.exact(), kernels.call.inputs[0].dtype
    assert {x.dtype for x in got} == {dtype}
    # the codebook is rounded to the dtype of the keys, and that of the wide reference is not
    codes = 4 * torch.finfo(dtype).eps * max(float(x.abs().max()) for x in exact) if kernels.name == "vq.triton" else 0.0
    no_worse(got, kernels.call.results("reference"), exact, codes)


STRIDED, FIXED = sparse("strided", {"stride": 4}, 80), sparse("fixed", {"stride": 16, "c": 3}, 80)
DILATED = sparse("longformer", {"window": 20, "dilation": 2}, 80)


@pytest.mark.parametrize("kernels", [STRIDED, vq(8, N=48), vq(8, N=48, causal=False)], ids=str)
def test_large_scores_do_not_overflow(kernels: Kernels, ask: Ask) -> None:
    q, k, v = kernels.call.inputs
    kernels.call.inputs = (100 * q, 100 * k, v)
    got, want = kernels.results(ask), kernels.call.exact()
    assert all(x.isfinite().all() for x in got)
    assert float((got[0].double() - want[0]).abs().max()) < 1e-2


@pytest.mark.parametrize("t", [41, pytest.param(64, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kernels", [linear(100), STRIDED, FIXED, DILATED, vq(8, codes=9, N=80)], ids=str)
def test_no_token_sees_the_future(kernels: Kernels, t: int, ask: Ask) -> None:
    later = [torch.cat((x[:, :, :t], -3 * x[:, :, t:]), 2) for x in kernels.call.inputs]
    choices = kernels.call.method.choose(*later)
    (before,) = kernels.put(ask)
    (after,) = kernels.put(ask, later, keywords={} if choices is None else {"choices": choices})
    assert torch.equal(before[:, :, :t], after[:, :, :t])
    assert not torch.equal(before[:, :, t:], after[:, :, t:])


@pytest.mark.parametrize(
    "kernels",
    [
        linear(70, B=2),
        sparse("strided", {"stride": 1}, 24, B=2),
        vq(7, B=2, N=16),
        pytest.param(vq(7, B=2, N=16, causal=False), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_layouts_and_repeated_calls_give_the_same_bits(kernels: Kernels, ask: Ask) -> None:
    inputs, usual = kernels.call.inputs, kernels.results(ask)
    for others in (inputs, turned(inputs, 1, 2), turned(inputs, -2, -1)):
        assert all(torch.equal(a, b) for a, b in zip(kernels.put(ask, others, g=kernels.call.g), usual, strict=True))


@pytest.mark.parametrize("kernels", [linear(100, **TWO), sparse("window", {"window": 16}, 40, H=2), vq(16)], ids=str)
def test_a_gradient_may_be_one_number_for_all(kernels: Kernels, ask: Ask) -> None:
    assert kernels.call.g is not None
    kernels.call.g = torch.ones_like(kernels.call.g)
    same(kernels.put(ask, g=torch.ones(())), kernels.call.exact(), 1e-5)


WINDOW = sparse("window", {"window": 20}, 30, H=2, M=8, kv_heads=1)
CODES, CODEBOOK = torch.arange(60).view(1, 2, 30) % 9, torch.linspace(-1, 1, 2 * 9 * 16).view(2, 9, 16)


@pytest.mark.parametrize(
    ("operator", "kernels", "given", "how"),
    [
        ("linear.triton.product:causal_linear_attention", linear(130), [], lambda _: ("elu_plus_one", 1e-6)),
        ("sparse.triton.product:sparse_attention", WINDOW, [], lambda call: (call.method.described, call.method.causal)),
        ("vq.triton.product:vq_attention", vq(8, N=30, H=2), [CODES, CODEBOOK], lambda _: (8, True, True)),
        ("vq.triton.coding:normalise", None, [torch.rand(1, 2, 30, 16)], lambda _: (0.3,)),
        ("vq.triton.coding:nearest_codes", None, [torch.rand(1, 2, 30, 16), CODEBOOK], lambda _: ()),
        ("vq.triton.coding:rows_of_codes", None, [CODES, CODEBOOK], lambda _: ()),
    ],
    ids=["linear", "sparse", "vq", "normalise", "nearest_codes", "rows_of_codes"],
)
def test_the_operator_keeps_what_torch_asks_of_one(
    operator: str, kernels: Kernels | None, given: list[torch.Tensor], how: Callable[[Any], tuple[Any, ...]], ask: Ask
) -> None:
    """Schema, fake tensors, autograd registration, and tracing with dynamic shapes."""
    call = None if kernels is None else kernels.call
    inputs, differentiable = [*(x.detach() for x in call.inputs), *given] if call else given, 3 if call else 0
    if operator.endswith("normalise"):
        differentiable = 1
    about = {"operator": f"attnbench_impls.{operator}", "how": how(call), "differentiable": differentiable}
    (found,) = ask("opcheck", inputs=inputs, **about)
    assert set(found.values()) == {"SUCCESS"}


@pytest.mark.parametrize("kernels", [linear(80, **TWO), FIXED, vq(8, H=2)], ids=str)
def test_decoding_goes_on_where_the_kernels_stopped(kernels: Kernels, ask: Ask) -> None:
    # without a prompt, which may go through the kernels
    (parallel,) = kernels.put(ask)
    torch.testing.assert_close(kernels.call.decoded(0), parallel)


@pytest.mark.parametrize(
    "kernels",
    [
        sparse("strided", {"stride": 3}, 70, D=32, M=16),
        sparse("fixed", {"stride": 20, "c": 3}, 37, H=2, kv_heads=1, causal=False),
        sparse("longformer", {"window": 40, "globals": 3, "dilation": 3}, 70, D=20, causal=False),
    ],
    ids=str,
)
def test_the_executed_count_is_that_of_the_products(kernels: Kernels, ask: Ask) -> None:
    forward, both = (
        cost_of(kernels.name, kernels.call.problem, workload, kernels.params).executed_flops
        for workload in (Workload.FORWARD, Workload.FORWARD_BACKWARD)
    )
    assert kernels.put(ask, what="flops") == [forward]
    assert kernels.put(ask, what="flops", g=kernels.call.g) == [both]


def test_a_query_that_sees_nothing_gives_nothing_and_moves_nothing(ask: Ask) -> None:
    o, dq, _, _ = sparse("fixed", {"stride": 16, "c": 2, **BY_LAYER}, 40).results(ask)
    assert not o[:, :, :14].any()
    assert not dq[:, :, :14].any()
    assert o[:, :, 14:].all()
