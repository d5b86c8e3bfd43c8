"""Our Triton kernels, by Triton's interpreter, against their definitions."""

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attnbench.api import Workload
from tests.impls.contract.calls import no_worse
from tests.impls.kernels.conftest import Ask
from tests.impls.kernels.kernel_calls import Kernels, OfMethod, OfOperator, assert_close

ONE: dict[str, Any] = {"H": 1}
TWO: dict[str, Any] = {"H": 2, "D": 20, "M": 9}
FREE: dict[str, Any] = {"H": 1, "D": 20, "M": 9, "causal": False}
SHARED: dict[str, Any] = {**TWO, "kv_heads": 1}


def linear(N: int, feature_map: str = "elu_plus_one", **shape: Any) -> OfMethod:
    return OfMethod("linear.triton", {"feature_map": feature_map, "eps": 1e-3}, {"H": 2, "N": N, "D": 20, "M": 9, **shape})


def sparse(name: str, params: dict[str, Any], shape: dict[str, Any], N: int) -> OfMethod:
    return OfMethod(f"sparse.{name}_triton", params, {**shape, "N": N})


def of_one_token(*, causal: bool) -> list[OfMethod]:
    params = {"strided": {"stride": 3}, "fixed": {"stride": 3}, "longformer": {}}
    return [sparse(name, params[name], {"H": 2, "causal": causal}, 1) for name in params]


def vq(through_table: bool, *, causal: bool) -> OfMethod:
    params = {"codes": 6, "block": 9, "gradient_through_table": through_table}
    return OfMethod("vq.triton", params, {"H": 2, "N": 40, "causal": causal})


# lengths that do and do not end with a chunk, block, group, tile or segment; no table, one, and many; every
# pattern and mode together with MORE
CASES: list[Kernels] = [
    *(linear(N) for N in (1, 64, 257)),
    linear(70, kv_heads=1),
    *(linear(150, H=1, D=D, M=M) for D, M in ((80, 16), (16, 80), (1, 1))),
    sparse("strided", {"stride": 5}, {**TWO, **ONE}, 63),
    sparse("strided", {"stride": 7, "mode": "per_head"}, SHARED, 64),
    sparse("fixed", {"stride": 20, "c": 5}, TWO, 63),
    sparse("fixed", {"stride": 20, "c": 8}, {**SHARED, "causal": False}, 50),
    sparse("fixed", {"stride": 20, "c": 3, "mode": "by_layer", "layer": 1}, SHARED, 40),
    sparse("atrous", {"stride": 3, "reach": 4}, FREE, 63),
    sparse("window", {"window": 33}, FREE, 64),
    sparse("longformer", {"window": 9, "globals": 3}, {**TWO, **ONE}, 64),
    *of_one_token(causal=True),
    OfOperator((20, True, True), {"N": 63, "D": 20, "M": 9}),
    OfOperator((9, True, True), {"N": 31, "H": 2, "S": 5}),
    OfOperator((9, True, True), {"N": 31, "B": 2, "H": 4, "kv_heads": 2, "S": 5}),
    OfOperator((16, True, False), {"N": 50}),
    OfOperator((64, True, True), {"N": 64}),
    OfOperator((100, True, True), {"N": 33}),
    OfOperator((1, True, True), {"N": 5}),
    *(OfOperator((3, True, True), {"N": N}) for N in (1, 2)),
    OfOperator((16, False, True), {"N": 63, "D": 20, "M": 9}),
    # two segments, which are one below 129 tokens
    OfOperator((16, False, True), {"N": 150, "S": 20}),
    OfOperator((16, False, False), {"N": 33}),
    OfOperator((16, False, True), {"N": 40, "H": 3, "kv_heads": 1}),
    OfOperator((16, False, True), {"N": 1}),
    *(vq(table, causal=table) for table in (True, False)),
]
# long rows and columns, shared out among programs
SPLIT = OfMethod(
    "sparse.longformer_triton", {"window": 5, "globals": 3}, {"H": 2, "N": 50, "causal": False, "kv_heads": 1}, share=16
)
MORE: list[Kernels] = [
    linear(63),
    *(linear(150, name) for name in ("relu", "squared_relu")),
    sparse("strided", {"stride": 3, "convention": "code"}, FREE, 40),
    sparse("fixed", {"stride": 32, "c": 8, "mode": "per_head", "distinct": False}, SHARED, 64),
    sparse("local", {"stride": 40}, {**TWO, **ONE}, 200),
    sparse("longformer", {"window": 9, "globals": 3, "dilation": 3, "dilated_heads": 1}, {**SHARED, "causal": False}, 40),
    *of_one_token(causal=False),
    *(vq(table, causal=not table) for table in (True, False)),
    vq(True, causal=True).with_shape(H=4, kv_heads=2),
    OfMethod(SPLIT.name, {**SPLIT.params, "dilation": 3, "dilated_heads": 1}, SPLIT.shape, share=16),
    sparse("longformer", {"window": 3, "globals": 50}, {"causal": False}, 63),
    sparse("local", {"stride": 300, "convention": "code"}, {"causal": False}, 64),
    sparse("strided", {"stride": 5, "mode": "by_layer", "layer": 1}, {"causal": False}, 64),
    sparse("strided", {"stride": 17}, {"H": 2}, 63),
    sparse("strided", {"stride": 6}, {"H": 2, "causal": False, "kv_heads": 1}, 200),
    sparse("strided", {"stride": 40, "mode": "per_head"}, {"H": 2}, 200),
    sparse("strided", {"stride": 16, "mode": "per_head"}, {"H": 2, "kv_heads": 1, "causal": False}, 257),
    sparse("fixed", {"stride": 20, "c": 5}, {"H": 4, "kv_heads": 1, "causal": False}, 200),
    sparse("fixed", {"stride": 50, "c": 2}, {"B": 2, "H": 3}, 257),
    sparse("fixed", {"stride": 16, "c": 3, "mode": "by_layer", "layer": 1}, {"H": 4, "kv_heads": 2, "causal": False}, 64),
    sparse("atrous", {"stride": 7}, {"H": 2}, 257),
    sparse("longformer", {"window": 64, "globals": 2, "dilation": 2}, {"H": 4, "kv_heads": 2}, 257),
    OfOperator((64, True, True), {"N": 257, "S": 30, "H": 2}),
    OfOperator((100, True, True), {"N": 400, "S": 100, "D": 40, "M": 70}),
    OfOperator((16, True, True), {"N": 100, "B": 2, "H": 3}),
    OfOperator((20, True, True), {"N": 64, "S": 40}),
    OfOperator((7, True, True), {"N": 40, "H": 2, "S": 5}),
    OfOperator((16, False, True), {"N": 300, "B": 2, "H": 2, "S": 70}),
]


def codes_in(dtype: torch.dtype, *, causal: bool) -> OfOperator:
    return OfOperator((16, causal, True), {"N": 64, "D": 32, "S": 10}, dtype)


STRIDED = sparse("strided", {"stride": 4}, {}, 48)
FIXED = sparse("fixed", {"stride": 16, "c": 3}, {}, 64)
LONG = sparse("longformer", {"window": 20, "dilation": 2}, {}, 64)
VQ = OfMethod("vq.triton", {"codes": 6, "block": 8}, {"H": 2, "N": 40})
CODES, CODES_WHOLE = (OfOperator((8, causal, True), {"N": 48}) for causal in (True, False))


@pytest.mark.parametrize("kernels", [*CASES, SPLIT, *(pytest.param(each, marks=pytest.mark.slow) for each in MORE)], ids=str)
def test_values_and_gradients_are_those_of_the_definition(kernels: Kernels, ask: Ask) -> None:
    inputs, g = kernels.drawn()
    assert_close(kernels.put(ask, inputs, g=g), kernels.exact(inputs, g), kernels.off_by)


@st.composite
def any_kernels(draw: Any) -> Kernels:
    """Few tokens, groups and blocks, so that few programs are to be interpreted."""
    widths = {"N": draw(st.integers(1, 70)), "D": draw(st.integers(1, 40)), "M": draw(st.integers(1, 40))}
    kind = draw(st.sampled_from(["linear", "strided", "fixed", "longformer", "vq"]))
    if kind == "linear":
        return linear(**{**widths, "N": draw(st.integers(1, 140)), "B": draw(st.integers(1, 2)), "H": draw(st.integers(1, 3))})
    if kind == "vq":
        how = draw(st.integers(max(1, widths["N"] // 6), 80)), draw(st.booleans()), draw(st.booleans())
        return OfOperator(how, {**widths, "S": draw(st.integers(1, 40))})
    params = {
        "strided": {"stride": draw(st.integers(1, 6))},
        "fixed": {"stride": draw(st.integers(9, 40)), "c": draw(st.integers(1, 9))},
        "longformer": {
            "window": draw(st.integers(1, 70)),
            "dilation": draw(st.integers(1, 4)),
            "globals": draw(st.integers(0, 4)),
        },
    }
    return OfMethod(f"sparse.{kind}_triton", params[kind], {**widths, "causal": draw(st.booleans())})


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kernels=any_kernels())
def test_any_shape_will_do(kernels: Kernels, ask: Ask) -> None:
    inputs, g = kernels.drawn()
    assert_close(kernels.put(ask, inputs, g=g), kernels.exact(inputs, g), kernels.off_by)


@pytest.mark.parametrize(
    "kernels",
    [
        linear(160, H=1, D=32, M=32, dtype="bfloat16"),
        sparse("strided", {"stride": 4}, {"D": 32, "dtype": "bfloat16", "causal": False}, 64),
        sparse("longformer", {"window": 9}, {"D": 32, "dtype": "float16", "causal": False}, 64),
        codes_in(torch.bfloat16, causal=True),
        codes_in(torch.float16, causal=False),
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in (
                *(linear(160, H=1, D=32, M=32, dtype=dtype) for dtype in ("float32", "float16")),
                codes_in(torch.float16, causal=True),
                codes_in(torch.bfloat16, causal=False),
            )
        ),
    ],
    ids=str,
)
def test_the_error_is_within_twice_that_of_the_definition_in_the_same_dtype(kernels: Kernels, ask: Ask) -> None:
    inputs, g = kernels.drawn()
    got = kernels.put(ask, inputs, g=g)
    assert {x.dtype for x in got} == {inputs[0].dtype}
    no_worse(got, kernels.defined(inputs, g), kernels.exact(inputs, g))


@pytest.mark.parametrize("kernels", [STRIDED, CODES, CODES_WHOLE], ids=str)
def test_large_scores_do_not_overflow(kernels: Kernels, ask: Ask) -> None:
    (q, k, *rest), g = kernels.drawn()
    inputs = [100 * q, 100 * k, *rest]
    got, want = kernels.put(ask, inputs, g=g), kernels.exact(inputs, g)
    assert all(x.isfinite().all() for x in got)
    assert float((got[0].double() - want[0]).abs().max()) < 1e-2


@pytest.mark.parametrize("t", [41, pytest.param(64, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "kernels", [linear(100, H=1), STRIDED.with_shape(N=80), FIXED.with_shape(N=80), LONG.with_shape(N=80)], ids=str
)
def test_no_token_sees_the_future(kernels: OfMethod, t: int, ask: Ask) -> None:
    inputs, _ = kernels.drawn()
    later = [torch.cat([x[:, :, :t], -3 * x[:, :, t:]], 2) for x in inputs]
    before, after = (kernels.put(ask, x)[0] for x in (inputs, later))
    assert torch.equal(before[:, :, :t], after[:, :, :t])
    assert not torch.equal(before[:, :, t:], after[:, :, t:])


def test_no_token_sees_the_codes_of_the_future(ask: Ask) -> None:
    kernels = OfOperator((8, True, True), {"N": 64, "S": 9})
    (*qkv, codes, codebook), _ = kernels.drawn()
    later = [
        *(torch.cat([x[:, :, :41], -3 * x[:, :, 41:]], 2) for x in qkv),
        torch.cat([codes[:, :, :41], 8 - codes[:, :, 41:]], 2),
    ]
    before, after = (kernels.put(ask, [*x, codebook])[0] for x in ([*qkv, codes], later))
    assert torch.equal(before[:, :, :41], after[:, :, :41])
    assert not torch.equal(before[:, :, 41:], after[:, :, 41:])


@pytest.mark.parametrize(
    "kernels",
    [
        linear(70, H=1, B=2),
        sparse("strided", {"stride": 1}, {"B": 2}, 24),
        OfOperator((7, True, True), {"B": 2, "N": 16}),
        pytest.param(OfOperator((7, False, True), {"B": 2, "N": 16}), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_layouts_and_repeated_calls_give_the_same_bits(kernels: Kernels, ask: Ask) -> None:
    inputs, g = kernels.drawn()
    usual = kernels.put(ask, inputs, g=g)
    tokens_first = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in inputs]
    columns_first = [x.mT.contiguous().mT for x in inputs]
    for others in (inputs, tokens_first, columns_first):
        assert all(torch.equal(a, b) for a, b in zip(kernels.put(ask, others, g=g), usual, strict=True))


@pytest.mark.parametrize(
    "kernels", [linear(100), sparse("window", {"window": 16}, {"H": 2}, 40), OfOperator((16, True, True))], ids=str
)
def test_a_gradient_may_be_one_number_for_all(kernels: Kernels, ask: Ask) -> None:
    inputs, g = kernels.drawn()[0], torch.ones(())
    for a, b in zip(kernels.put(ask, inputs, g=g), kernels.exact(inputs, g), strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-5, atol=1e-5)


WINDOW = sparse("window", {"window": 20}, {"H": 2, "M": 8, "kv_heads": 1}, 30)


@pytest.mark.parametrize(
    ("operator", "kernels", "how"),
    [
        ("linear.triton.product:causal_linear_attention", linear(130), lambda _: ("elu_plus_one", 1e-6)),
        ("sparse.triton.product:sparse_attention", WINDOW, lambda kernels: (kernels.method.described, kernels.method.causal)),
        ("vq.triton.product:vq_attention", OfOperator((8, True, True), {"N": 20, "M": 8}), lambda kernels: kernels.how),
    ],
    ids=["linear", "sparse", "vq"],
)
def test_the_operator_keeps_what_torch_asks_of_one(operator: str, kernels: Kernels, how: Any, ask: Ask) -> None:
    """Schema, fake tensors, autograd registration, and tracing with dynamic shapes."""
    (found,) = ask("opcheck", operator=f"attnbench_impls.{operator}", how=how(kernels), inputs=kernels.drawn()[0])
    assert set(found.values()) == {"SUCCESS"}


@pytest.mark.parametrize("kernels", [linear(80), FIXED.with_shape(N=40), VQ], ids=str)
def test_decoding_goes_on_where_the_kernels_stopped(kernels: OfMethod, ask: Ask) -> None:
    inputs, method, N = kernels.drawn()[0], kernels.method, kernels.problem.N
    (parallel,) = kernels.put(ask, inputs)
    # without a prompt, which may go through the kernels
    _, state = method.prefill(*(x[:, :, :0] for x in inputs), capacity=N)
    found = []
    for t in range(N):
        o, state = method.step(*(x[:, :, t : t + 1] for x in inputs), state=state)
        found.append(o)
    torch.testing.assert_close(torch.cat(found, 2), parallel)


@pytest.mark.parametrize(
    "kernels",
    [
        sparse("strided", {"stride": 3}, {"D": 32, "M": 16}, 70),
        sparse("fixed", {"stride": 20, "c": 3}, {"H": 2, "kv_heads": 1, "causal": False}, 37),
        sparse("longformer", {"window": 40, "globals": 3, "dilation": 3}, {"D": 20, "causal": False}, 70),
    ],
    ids=str,
)
def test_the_executed_count_is_that_of_the_products(kernels: OfMethod, ask: Ask) -> None:
    inputs, g = kernels.drawn()
    assert kernels.put(ask, inputs, "flops", g=g) == [kernels.cost(Workload.FORWARD_BACKWARD).executed_flops]


def test_a_query_that_sees_nothing_gives_nothing_and_moves_nothing(ask: Ask) -> None:
    kernels = sparse("fixed", {"stride": 16, "c": 2, "mode": "by_layer", "layer": 1}, {}, 40)
    inputs, g = kernels.drawn()
    o, dq, _, _ = kernels.put(ask, inputs, g=g)
    assert not o[:, :, :14].any()
    assert not dq[:, :, :14].any()
    assert o[:, :, 14:].all()
