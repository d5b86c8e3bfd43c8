"""Sums and masks of linear.triton, tables and codes of vq.triton, by Triton's interpreter."""

from importlib import import_module
from typing import Any

import pytest
import torch

from attnbench.api import Problem
from tests.impls.contract.calls import same, turned
from tests.impls.kernels.conftest import Ask
from tests.impls.kernels.kernel_calls import linear, vq

cost: Any = import_module("attnbench_impls.vq.triton.cost")
plan: Any = import_module("attnbench_impls.vq.triton.plan")
CODING = "attnbench_impls.vq.triton.coding"
NEAREST = f"{CODING}:nearest_codes"
codebooks: Any = import_module("attnbench_impls.vq.codebook")
rms: Any = import_module("attnbench_impls.vq.eager.rms")


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
    k = torch.zeros(1, 1, 2048, 16, dtype=torch.bfloat16)
    v = (torch.arange(2048) >= 1024).bfloat16().view(1, 1, -1, 1).expand(1, 1, 2048, 16)
    (o,) = linear(2048, eps=1e-6, dtype="bfloat16").put(ask, [k, k, v])
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
def test_the_executed_count_is_that_of_the_products(through_table: bool, causal: bool, ask: Ask) -> None:
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
