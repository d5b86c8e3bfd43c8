"""Sums and masks of linear.triton, tables and codes of vq.triton, by Triton's interpreter."""

from importlib import import_module
from typing import Any

import pytest
import torch

from attnbench.api import Problem
from tests.impls.kernels.conftest import Ask
from tests.impls.kernels.kernel_calls import OfMethod, OfOperator, assert_close

cost: Any = import_module("attnbench_impls.vq.triton.cost")
plan: Any = import_module("attnbench_impls.vq.triton.plan")
CODING = "attnbench_impls.vq.triton.coding"
NEAREST = f"{CODING}:nearest_codes"
codebooks: Any = import_module("attnbench_impls.vq.codebook")
rms: Any = import_module("attnbench_impls.vq.eager.rms")


def linear(N: int, feature_map: str = "elu_plus_one", **shape: Any) -> OfMethod:
    return OfMethod("linear.triton", {"feature_map": feature_map}, {"N": N, **shape})


@pytest.mark.slow
def test_a_precision_that_changes_after_the_forward_changes_no_gradient(ask: Ask) -> None:
    """What the forward kept is cut as its own precision has it."""
    kernels = linear(900, D=64)
    inputs, g = kernels.drawn()
    first, later = kernels.put(ask, inputs, g=g), kernels.put(ask, inputs, g=g, later="high")
    assert all(torch.equal(x, y) for x, y in zip(first, later, strict=True))


def test_float16_survives_sums_that_it_cannot_hold(ask: Ask) -> None:
    """Scores of 10⁴, states of 10⁵ and denominators of 10⁶, where float16 ends at 65504, and shares of 4·10⁻³."""
    kernels = linear(256, "relu", dtype="float16")
    inputs, g = kernels.drawn()
    inputs = [20 + 10 * x.abs() for x in inputs]
    got, want = kernels.put(ask, inputs, g=g), kernels.exact(inputs, g)
    assert_close(got[:1], want[:1], 1e-3)
    assert_close(got[1:], want[1:], 5e-3)


def test_bfloat16_keeps_its_sums_in_float32(ask: Ask) -> None:
    """A sum kept in bfloat16 stops growing at 256 equal terms; the mean of v would then be far off."""
    k = torch.zeros(1, 1, 2048, 16, dtype=torch.bfloat16)
    v = (torch.arange(2048) >= 1024).bfloat16().view(1, 1, -1, 1).expand(1, 1, 2048, 16)
    (o,) = linear(2048, dtype="bfloat16").put(ask, [k, k, v])
    torch.testing.assert_close(o[0, 0, -1].float(), torch.full((16,), 0.5), rtol=0.01, atol=0)


def test_constant_values_come_out_as_they_are(ask: Ask) -> None:
    kernels = linear(140, dtype="bfloat16")
    (q, k, v), _ = kernels.drawn()
    (o,) = kernels.put(ask, [q, k, torch.full_like(v, 3.0)])
    # two roundings, and the interpreter rounds to bfloat16 by cutting off
    torch.testing.assert_close(o.float(), torch.full(o.shape, 3.0), rtol=2**-6, atol=0)


@pytest.mark.parametrize("feature_map", ["elu_plus_one", "relu", "squared_relu"])
def test_hidden_keys_do_not_exist(feature_map: str, ask: Ask) -> None:
    kernels = linear(150, feature_map, B=2)
    (q, k, v), g = kernels.drawn()
    mask = torch.rand(2, 150, generator=torch.Generator().manual_seed(1)) < 0.6
    mask[1] = False
    # at hidden places anything may stand
    got = kernels.put(ask, [q, torch.where(mask[:, None, :, None], k, 1e4), v], g=g, keywords={"key_mask": mask})
    want = kernels.exact([q, torch.where(mask[:, None, :, None], k, 0), v], g, key_mask=mask)
    assert_close(got, want, 2e-6)
    assert not got[0][1].any()
    assert not any(x.transpose(1, 2)[~mask].any() for x in got[2:])


def test_a_table_has_the_mean_value_and_count_of_each_code_so_far(ask: Ask) -> None:
    inputs, _ = OfOperator((16, True, True), {"N": 70, "H": 2, "S": 5}).drawn()
    means, counts = ask("tables", how=(16, True, True), inputs=inputs)
    _, _, v, codes, _ = inputs
    assert means.shape == (2, 3, 5, 16)
    for t in range(3):
        old = slice(16 * (t + 1))
        assert (counts[:, t].sum(-1) == 16 * (t + 1)).all()
        for h in range(2):
            for s in range(5):
                own = v[0, h, old][codes[0, h, old] == s]
                assert counts[h, t, s] == len(own)
                torch.testing.assert_close(means[h, t, s], own.mean(0) if len(own) else torch.zeros(16))


def test_means_of_values_far_from_zero_stay_exact(ask: Ask) -> None:
    inputs, _ = OfOperator((4, True, True), {"N": 70, "S": 1}).drawn()
    inputs[2] = torch.full_like(inputs[2], 1e30)
    means, _ = ask("tables", how=(4, True, True), inputs=inputs)
    assert means.shape[1] == 16
    torch.testing.assert_close(means, torch.full_like(means, 1e30), rtol=1e-6, atol=0)


@pytest.mark.parametrize("causal", [True, False])
def test_codes_that_no_token_has_weigh_nothing(causal: bool, ask: Ask) -> None:
    kernels = OfOperator((8, causal, True), {"N": 40, "S": 40})
    inputs, _ = kernels.drawn()
    inputs[3] = inputs[3] % 3 + 37
    (o,) = kernels.put(ask, inputs)
    # the scores of all others would be infinite
    inputs[4][:, :37] = 1e30
    assert torch.equal(kernels.put(ask, inputs)[0], o)


def test_the_block_length_changes_nothing_where_keys_are_codes(ask: Ask) -> None:
    inputs, g = OfOperator((7, True, True)).drawn()
    inputs[1] = inputs[4][0][inputs[3][0, 0]][None, None]
    results = [OfOperator((block, True, True)).put(ask, inputs, g=g) for block in (7, 13, 40)]
    for got in results[:2]:
        # but for the gradient of keys, which ends with the window
        for i in (0, 1, 3):
            torch.testing.assert_close(got[i], results[2][i], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("through_table", "causal"),
    [
        (True, True),
        (False, False),
        pytest.param(True, False, marks=pytest.mark.slow),
        pytest.param(False, True, marks=pytest.mark.slow),
    ],
)
def test_the_executed_count_is_that_of_the_products(through_table: bool, causal: bool, ask: Ask) -> None:
    kernels = OfOperator((30, causal, through_table), {"H": 2, "kv_heads": 1, "N": 100, "D": 32, "M": 20, "S": 37})
    inputs, g = kernels.drawn()
    layout = plan.Plan.of(plan.Shape(B=1, H=2, kv_heads=1, N=100, D=32, M=20, S=37, L=30, causal=causal), "ieee")
    assert kernels.put(ask, inputs, "flops") == [cost.attended_flops(layout, trains=False)]
    assert kernels.put(ask, inputs, "flops", g=g) == [cost.attended_flops(layout, trains=True, through_table=through_table)]


def test_codes_may_be_given(ask: Ask) -> None:
    kernels = OfMethod("vq.triton", {"codes": 6, "block": 9}, {"H": 2, "N": 40})
    inputs, _ = kernels.drawn()
    other = (kernels.method.choose(*inputs) + 1) % 6
    (got,) = kernels.put(ask, inputs, keywords={"choices": other})
    torch.testing.assert_close(got, kernels.method.reference(*inputs, choices=other))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (3, 150, 20, 37), (2, 70, 64, 100)], ids=str)
def test_the_codes_chosen_are_the_nearest(shape: tuple[int, ...], dtype: torch.dtype, ask: Ask) -> None:
    """Exactly, in half precision too, where the codebook is cut into parts."""
    H, N, D, S = shape
    k, vectors = torch.randn(1, H, N, D).to(dtype), torch.randn(H, S, D)
    for keys in (k, k.transpose(1, 2).contiguous().transpose(1, 2), k.mT.contiguous().mT):
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
    for rows in (x, x.transpose(1, 2).contiguous().transpose(1, 2), x.mT.contiguous().mT):
        got = ask("evaluate", operator=f"{CODING}:normalise", how=(0.3,), inputs=[rows], g=g)
        torch.testing.assert_close(got, [want[0].detach(), slope])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_rows_of_codes_are_looked_up(dtype: torch.dtype, ask: Ask) -> None:
    codes, codebook = torch.randint(9, (1, 3, 150)), torch.randn(3, 9, 20).to(dtype)
    (rows,) = ask("evaluate", operator=f"{CODING}:rows_of_codes", how=(), inputs=[codes, codebook])
    assert torch.equal(rows, codebooks.rows_of(codebook, codes)[0])


@pytest.mark.parametrize(
    ("name", "inputs", "how", "differentiable"),
    [
        ("normalise", [torch.randn(1, 2, 30, 16)], (0.3,), 1),
        ("nearest_codes", [torch.randn(1, 2, 30, 16), torch.randn(2, 9, 16)], (), 0),
        ("rows_of_codes", [torch.randint(9, (1, 2, 30)), torch.randn(2, 9, 16)], (), 0),
    ],
    ids=["normalise", "nearest_codes", "rows_of_codes"],
)
def test_the_operators_before_attention_keep_what_torch_asks_of_one(
    name: str, inputs: list[torch.Tensor], how: tuple[float, ...], differentiable: int, ask: Ask
) -> None:
    (found,) = ask("opcheck", operator=f"{CODING}:{name}", how=how, inputs=inputs, differentiable=differentiable)
    assert set(found.values()) == {"SUCCESS"}
