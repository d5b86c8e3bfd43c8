"""Our Triton kernels, by Triton's interpreter, against their definitions, and the sums, tables and codes within them."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attnbench.api import Problem, Workload
from tests.impls.contract.calls import no_worse, same, turned
from tests.impls.contract.subjects import cost_of
from tests.impls.kernels.conftest import Ask, Kernels, linear, sparse, vq

cost: Any = import_module("attnbench_impls.vq.triton.cost")
plan: Any = import_module("attnbench_impls.vq.triton.plan")
CODING = "attnbench_impls.vq.triton.coding"
NEAREST = f"{CODING}:nearest_codes"
codebooks: Any = import_module("attnbench_impls.vq.codebook")
rms: Any = import_module("attnbench_impls.vq.eager.rms")

TWO: dict[str, Any] = {"H": 2, "D": 20, "M": 9}
ODD: dict[str, Any] = {"D": 20, "M": 9}
SHARED: dict[str, Any] = {**TWO, "kv_heads": 1}
BY_LAYER: dict[str, Any] = {"mode": "by_layer", "layer": 1}
OF_ONE_TOKEN: dict[str, dict[str, Any]] = {"strided": {"stride": 3}, "fixed": {"stride": 3}, "longformer": {}}

# lengths that do and do not end with a chunk, block, group, tile or segment; no table, one, and many; every pattern and mode
CASES: list[Kernels] = [
    *(linear(N, **TWO) for N in (1, 64)),
    linear(70, **SHARED),
    *(linear(150, D=D, M=M) for D, M in ((16, 80), (1, 1))),
    sparse("strided", {"stride": 5}, 63, **ODD),
    sparse("fixed", {"stride": 20, "c": 5}, 63, **TWO),
    sparse("fixed", {"stride": 20, "c": 3, **BY_LAYER}, 40, **SHARED),
    sparse("atrous", {"stride": 3, "reach": 4}, 63, **ODD, causal=False),
    sparse("window", {"window": 33}, 64, **ODD, causal=False),
    sparse("longformer", {"window": 9, "globals": 3}, 64, **ODD),
    # long rows and columns, shared out among programs
    sparse("longformer", {"window": 5, "globals": 3}, 50, share=16, H=2, kv_heads=1, causal=False),
    *(sparse(name, params, 1, H=2) for name, params in OF_ONE_TOKEN.items()),
    vq(20, N=63, **ODD),
    vq(9, codes=5, N=31, B=2, H=2, kv_heads=1),
    vq(16, N=50, through_table=False),
    *(vq(block, N=N) for block, N in ((64, 64), (100, 33), (1, 5), (3, 1), (3, 2))),
    # two segments, which are one below 129 tokens
    vq(16, codes=20, N=150, causal=False),
    vq(16, N=33, through_table=False, causal=False),
    *(vq(16, **shape, causal=False) for shape in ({"N": 1}, {"N": 63, **ODD}, {"H": 3, "kv_heads": 1})),
]
# longer ones than any_kernels draws, and options that it leaves out
MORE: list[Kernels] = [
    linear(257, **TWO),
    *(linear(150, name, **TWO) for name in ("relu", "squared_relu")),
    sparse("strided", {"stride": 7, "mode": "per_head"}, 64, **SHARED),
    sparse("strided", {"stride": 3, "convention": "code"}, 40, **ODD, causal=False),
    sparse("fixed", {"stride": 32, "c": 8, "mode": "per_head", "distinct": False}, 64, **SHARED),
    sparse("longformer", {"window": 9, "globals": 3, "dilation": 3, "dilated_heads": 1}, 40, **SHARED, causal=False),
    sparse("longformer", {"window": 5, "globals": 3, "dilation": 3, "dilated_heads": 1}, 50, share=16, H=2, causal=False),
    sparse("longformer", {"window": 3, "globals": 50}, 63, causal=False),
    sparse("local", {"stride": 40}, 200, **ODD),
    sparse("local", {"stride": 300, "convention": "code"}, 64, causal=False),
    *(sparse(name, params, 1, H=2, causal=False) for name, params in OF_ONE_TOKEN.items()),
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
        # gradients that cancel, as those of queries where there is one code, keep the rounding of what they are made of
        same(kernels.results(ask), kernels.call.exact(), 5e-5)

    is_the_definition()


@pytest.mark.parametrize(
    "kernels",
    [
        linear(160, D=32, M=32, dtype="bfloat16"),
        sparse("strided", {"stride": 4}, 64, D=32, dtype="bfloat16", causal=False),
        sparse("longformer", {"window": 9}, 64, D=32, dtype="float16", causal=False),
        vq(16, codes=10, N=64, D=32, dtype="bfloat16"),
        vq(16, codes=10, N=64, D=32, dtype="float16", causal=False),
        *(pytest.param(linear(160, D=32, M=32, dtype=dtype), marks=pytest.mark.slow) for dtype in ("float32", "float16")),
        pytest.param(vq(16, codes=10, N=64, D=32, dtype="float16"), marks=pytest.mark.slow),
        pytest.param(vq(16, codes=10, N=64, D=32, dtype="bfloat16", causal=False), marks=pytest.mark.slow),
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


@pytest.mark.parametrize("kernels", [linear(70, name) for name in ("elu_plus_one", "relu", "squared_relu")], ids=str)
def test_a_nan_is_in_every_output_that_it_belongs_to(kernels: Kernels, ask: Ask) -> None:
    q, k, v = (x.detach().clone() for x in kernels.call.inputs)
    q[0, 0, 2, 0] = k[0, 0, 5, 0] = torch.nan
    (o,) = kernels.put(ask, (q, k, v))
    assert o.isnan().any(-1)[0, 0].nonzero().flatten().tolist() == [2, *range(5, 70)]


@pytest.mark.parametrize("kernels", [linear(20, **SHARED), sparse("window", {}, 20, **SHARED), vq(8, **SHARED)], ids=str)
def test_tensors_that_do_not_fit_together_are_refused(kernels: Kernels) -> None:
    q, k, v = kernels.call.inputs
    wide = [x.double() for x in (q, k, v)]
    for others in (wide, (q[:, :, 1:], k, v), (q, k, v[:, :, 1:]), (q, k[..., 1:], v), (q, k, v.half())):
        with pytest.raises(ValueError, match="must be"):
            kernels.call.method(*others)


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
    [linear(70, B=2), sparse("strided", {"stride": 1}, 24, B=2), vq(7, B=2, N=16), vq(7, B=2, N=16, causal=False)],
    ids=str,
)
def test_layouts_and_repeated_calls_give_the_same_bits(kernels: Kernels, ask: Ask) -> None:
    inputs, usual = kernels.call.inputs, kernels.results(ask)
    for others in (inputs, turned(inputs, 1, 2), turned(inputs, -2, -1)):
        assert all(torch.equal(a, b) for a, b in zip(kernels.put(ask, others, g=kernels.call.g), usual, strict=True))


def test_tokens_may_be_so_far_apart_that_a_tile_spans_more_than_2_31_numbers(ask: Ask) -> None:
    kernels = linear(40, D=4, dtype="bfloat16")
    same(kernels.results(ask, apart=1 << 26), kernels.results(ask), 0)


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
        ("linear.triton.product:step", None, [*torch.rand(3, 1, 2, 1, 4), torch.rand(2, 4, 5)], lambda _: ("relu", 1e-6)),
        ("sparse.triton.product:sparse_attention", WINDOW, [], lambda call: (call.method.described, call.method.causal)),
        ("vq.triton.product:vq_attention", vq(8, N=30, H=2), [CODES, CODEBOOK], lambda _: (8, True, True)),
        ("vq.triton.coding:normalise", None, [torch.rand(1, 2, 30, 16)], lambda _: (0.3,)),
        ("vq.triton.coding:nearest_codes", None, [torch.rand(1, 2, 30, 16), CODEBOOK], lambda _: ()),
        ("vq.triton.coding:rows_of_codes", None, [CODES, CODEBOOK], lambda _: ()),
    ],
    ids=["linear", "step", "sparse", "vq", "normalise", "nearest_codes", "rows_of_codes"],
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


@pytest.mark.parametrize("kernels", [linear(9, "relu", **SHARED), linear(4, D=1, M=70, B=2)], ids=str)
def test_a_step_in_one_kernel_is_the_definition(kernels: Kernels, ask: Ask) -> None:
    same(kernels.put(ask, what="decoded"), kernels.call.exact()[:1], 1e-5)


@pytest.mark.parametrize("kernels", [FIXED, vq(8, H=2)], ids=str)
def test_decoding_goes_on_where_the_kernels_stopped(kernels: Kernels, ask: Ask) -> None:
    # without a prompt, which may go through the kernels
    (parallel,) = kernels.put(ask)
    torch.testing.assert_close(kernels.call.decoded(0), parallel)


@pytest.mark.parametrize(
    "kernels",
    [
        # three segments, of which the last is shorter
        *(linear(330, **ODD, dtype=dtype) for dtype in ("float32", "bfloat16")),
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
    assert [*kernels.put(ask, what="flops"), *kernels.put(ask, what="flops", g=kernels.call.g)] == [forward, both]


def test_a_query_that_sees_nothing_gives_nothing_and_moves_nothing(ask: Ask) -> None:
    o, dq, _, _ = sparse("fixed", {"stride": 16, "c": 2, **BY_LAYER}, 40).results(ask)
    assert not torch.stack((o, dq))[:, :, :, :14].any()
    assert o[:, :, 14:].all()


@pytest.mark.slow
def test_a_precision_that_changes_after_the_forward_changes_no_gradient(ask: Ask) -> None:
    """What the forward kept is cut as its own precision has it."""
    kernels = linear(900, D=64)
    first, later = kernels.results(ask), kernels.results(ask, later="high")
    assert all(torch.equal(x, y) for x, y in zip(first, later, strict=True))


def test_float16_survives_sums_that_it_cannot_hold(ask: Ask) -> None:
    """Scores of 10⁴, states of 10⁵ and denominators of 10⁶, where float16 ends at 65504, and shares of 4·10⁻³."""
    kernels = linear(256, "relu", 1e-6, dtype="float16")
    kernels.call.inputs = tuple((20 + 10 * x.detach().abs()).requires_grad_() for x in kernels.call.inputs)
    got, want = kernels.results(ask), kernels.call.exact()
    same(got[:1], want[:1], 1e-3)
    same(got[1:], want[1:], 5e-3)


def test_bfloat16_keeps_its_sums_in_float32(ask: Ask) -> None:
    """A sum kept in bfloat16 stops growing at 256 equal terms; the mean of v would then be far off."""
    k = torch.zeros(1, 1, 1024, 16, dtype=torch.bfloat16)
    v = (torch.arange(1024) >= 512).bfloat16().view(1, 1, -1, 1).expand(1, 1, 1024, 16)
    (o,) = linear(1024, eps=1e-6, dtype="bfloat16").put(ask, [k, k, v])
    torch.testing.assert_close(o[0, 0, -1].float(), torch.full((16,), 0.5), rtol=0.01, atol=0)


@pytest.mark.parametrize("feature_map", ["elu_plus_one", "relu", "squared_relu"])
def test_hidden_keys_do_not_exist(feature_map: str, ask: Ask) -> None:
    kernels, mask = linear(150, feature_map, 1e-6, B=2), torch.rand(2, 150) < 0.6
    mask[1] = False
    q, k, v = kernels.call.inputs
    # at hidden places anything may stand
    moved, shown = (torch.where(mask[:, None, :, None], k, hidden).detach().requires_grad_() for hidden in (1e4, 0))
    got = kernels.put(ask, [q, moved, v], g=kernels.call.g, keywords={"key_mask": mask})
    kernels.call.inputs = (q, shown, v)
    same(got, kernels.call.exact(key_mask=mask), 2e-6)
    assert not got[0][1].any()
    assert not any(x.transpose(1, 2)[~mask].any() for x in got[2:])


def test_a_table_has_the_mean_value_and_count_of_each_code_so_far(ask: Ask) -> None:
    """Up to the end of each block."""
    v, codes = torch.randn(1, 2, 70, 16), torch.randint(5, (1, 2, 70))
    means, counts = ask("tables", how=(5, 16), inputs=[v, codes])
    assert means.shape == (2, 3, 5, 16)
    for t in range(3):
        old = slice(16 * (t + 1))
        # a row of a code that no token has is 0
        one_hot = torch.nn.functional.one_hot(codes[0, :, old], 5).mT.float()
        assert torch.equal(counts[:, t], one_hot.sum(-1))
        torch.testing.assert_close(means[:, t], one_hot @ v[0, :, old] / counts[:, t].clamp(min=1).unsqueeze(-1))
    # far from zero they stay exact
    means, _ = ask("tables", how=(1, 4), inputs=[torch.full_like(v, 1e30), torch.zeros_like(codes)])
    assert means.shape[1] == 16
    torch.testing.assert_close(means, torch.full_like(means, 1e30), rtol=1e-6, atol=0)


@pytest.mark.parametrize("causal", [True, False])
def test_codes_may_be_given_and_those_that_no_token_has_weigh_nothing(causal: bool, ask: Ask) -> None:
    kernels = vq(8, codes=40, causal=causal)
    call = kernels.call
    assert call.choices is not None
    call.choices = call.choices % 3 + 37
    same(kernels.results(ask), call.exact(), 1e-5)
    (o,) = kernels.put(ask)
    # the scores of all others would be infinite
    call.method.codebook.sums[:, :37] = 1e30
    assert torch.equal(kernels.put(ask)[0], o)


@pytest.mark.parametrize(
    ("through_table", "causal"),
    [(True, True), (False, False), *(pytest.param(*each, marks=pytest.mark.slow) for each in ((True, False), (False, True)))],
)
def test_the_executed_count_of_vq_is_that_of_the_products(through_table: bool, causal: bool, ask: Ask) -> None:
    shape: dict[str, Any] = {"B": 1, "H": 2, "kv_heads": 1, "N": 100, "D": 32, "M": 20, "causal": causal}
    kernels, layout = (
        vq(30, codes=37, through_table=through_table, **shape),
        plan.Plan.of(plan.Shape(**shape, S=37, L=30), "ieee"),
    )
    assert kernels.put(ask, what="flops") == [cost.attended_flops(layout, trains=False)]
    trained = cost.attended_flops(layout, trains=True, through_table=through_table)
    assert kernels.put(ask, what="flops", g=kernels.call.g) == [trained]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (3, 150, 20, 37), (2, 70, 64, 100)], ids=str)
def test_the_codes_chosen_are_the_nearest(shape: tuple[int, ...], dtype: torch.dtype, ask: Ask) -> None:
    """Exactly, in half precision too, where the codebook is cut into parts."""
    H, N, D, S = shape
    k, vectors = torch.randn(1, H, N, D).to(dtype), torch.randn(H, S, D)
    for keys in (k, *turned((k,), 1, 2), *turned((k,), -2, -1)):
        (codes,) = ask("evaluate", operator=NEAREST, how=(), inputs=[keys, vectors])
        distances = (k.double().unsqueeze(3) - vectors.double().unsqueeze(1)).square().sum(-1)
        assert torch.equal(codes, distances.argmin(-1)[0])


def test_of_equal_codes_the_first_is_chosen(ask: Ask) -> None:
    # small whole numbers, so that equal codes are equally far in any order of sums
    k, vectors = (torch.randint(-9, 9, (1, *size, 16)).float() for size in ((1, 50), (2,)))
    (codes,) = ask("evaluate", operator=NEAREST, how=(), inputs=[k, vectors.repeat(1, 100, 1)])
    assert set(codes.flatten().tolist()) == {0, 1}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_executed_count_of_codes_is_that_of_the_products(dtype: str, ask: Ask) -> None:
    problem = Problem(B=1, H=2, N=100, D=20, dtype=dtype)
    inputs = [torch.randn(1, 2, 100, 20).to(getattr(torch, dtype)), torch.randn(2, 37, 20)]
    assert ask("flops", operator=NEAREST, how=(), inputs=inputs) == [cost.assigned_flops(problem, 37)]


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 150, 20), (2, 40, 64)], ids=str)
def test_rows_are_normalised_in_one_pass_like_in_plain_torch(shape: tuple[int, ...], ask: Ask) -> None:
    x, g = torch.randn(1, *shape), torch.randn(shape)
    leaf = x.clone().requires_grad_()
    want = rms.rms_norm(leaf, 0.3)
    (slope,) = torch.autograd.grad(want[0], leaf, g)
    for rows in (x, *turned((x,), 1, 2), *turned((x,), -2, -1)):
        got = ask("evaluate", operator=f"{CODING}:normalise", how=(0.3,), inputs=[rows], g=g)
        torch.testing.assert_close(got, [want[0].detach(), slope])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_rows_of_codes_are_looked_up(dtype: torch.dtype, ask: Ask) -> None:
    codes, codebook = torch.randint(9, (1, 3, 150)), torch.randn(3, 9, 20).to(dtype)
    (rows,) = ask("evaluate", operator=f"{CODING}:rows_of_codes", how=(), inputs=[codes, codebook])
    assert torch.equal(rows, codebooks.rows_of(codebook, codes)[0])
