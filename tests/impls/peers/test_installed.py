"""The packages of others themselves: what is said of them beyond the contract, which is held against them where they are."""

from importlib import import_module
from typing import Any

import pytest
import torch

from attnbench import Problem, registry
from attnbench.api import Cell
from tests.impls.contract.calls import evaluated, inputs_of
from tests.impls.contract.subjects import PEER

pytestmark = list(PEER)
NYSTROM = "landmark.nystrom_attention"
HUGGING = "lsh.transformers"


@pytest.mark.parametrize(
    "params", [{"landmarks": 8}, {"landmarks": 4, "iterations": 2}, {"landmarks": 8, "convolution_kernel": 5}], ids=str
)
def test_of_one_head_and_sample_it_is_ours(params: dict[str, Any]) -> None:
    problem = Problem(B=1, H=1, N=64, D=8, dtype="float64")
    theirs: Any = registry.build(NYSTROM, problem, **params).double()
    ours: Any = registry.build("landmark.nystrom", problem, **params)
    with torch.no_grad():
        for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            mine.copy_(other.view_as(mine))
    inputs = inputs_of(ours)
    torch.testing.assert_close(theirs(*inputs), ours(*inputs), rtol=0, atol=1e-10)


def test_one_sample_moves_another() -> None:
    method: Any = registry.build(NYSTROM, Problem(B=2, H=1, N=64, D=8), landmarks=8)
    q, k, v = (x.detach() for x in inputs_of(method))
    o = method(q, k, v)
    q[1] *= 30
    k[1] *= 30
    assert not torch.allclose(method(q, k, v)[0], o[0], rtol=0, atol=1e-4)


def test_lucidrains_is_ours_with_one_matrix_for_all_heads() -> None:
    problem = Problem(B=2, H=3, N=64, D=8, dtype="float64")
    ours: Any = registry.build("linformer.linformer", problem, k=16, sharing="headwise")
    theirs: Any = registry.build("linformer.lucidrains", problem, k=16).double()
    with torch.no_grad():
        ours.E.copy_(theirs.attention.proj_k.mT)
        ours.F.copy_(theirs.attention.proj_v.mT)
    inputs = inputs_of(ours)
    torch.testing.assert_close(ours(*inputs), theirs(*inputs), rtol=0, atol=1e-12)


def test_tatp22_is_ours_but_for_its_biases() -> None:
    problem = Problem(B=2, H=3, N=64, D=8, dtype="float64")
    for sharing in ("none", "headwise", "key_value", "layerwise"):
        ours: Any = registry.build("linformer.linformer", problem, k=16, sharing=sharing)
        theirs: Any = registry.build("linformer.tatp22", problem, k=16, sharing=sharing).double()
        assert sum(x.numel() for x in theirs.parameters()) == sum(x.numel() for x in ours.parameters()) * 65 // 64
        with torch.no_grad():
            for h, head in enumerate(theirs.heads):
                ours.E[h % len(ours.E)].copy_(head.E.weight)
                head.E.bias.zero_()
                head.F.bias.zero_()
                if ours.F is not None:
                    ours.F[h % len(ours.F)].copy_(head.F.weight)
        inputs = inputs_of(ours)
        torch.testing.assert_close(ours(*inputs), theirs(*inputs), rtol=0, atol=1e-12)


def test_the_triangle_of_linformer_pytorch_leaks_the_future() -> None:
    """Its own flag hides projected keys, each of which mixes all tokens: the first output moves with the last token."""
    family, problem = "attnbench_impls.linformer", Problem(B=1, H=2, N=64, D=8, causal=True)
    options = import_module(f"{family}.options").Options(16)
    head = import_module(f"{family}.tatp22").heads_of(problem, options, causal=True)[0]
    q, k, v = (torch.randn(1, 64, 8) for _ in "qkv")
    with torch.no_grad():
        before = head(q, k, v)[:, 0].clone()
        v[:, -1] += 1
        after = head(q, k, v)[:, 0]
    assert float((after - before).abs().max()) > 1e-3


def test_a_token_that_sees_only_itself_is_off_in_several_rounds_of_hugging_face() -> None:
    method: Any = registry.build(HUGGING, Problem(B=1, H=4, N=256, D=8, causal=True), bucket_size=16)
    qk, _, v = (x.detach() for x in inputs_of(method))
    off = ((method(qk, qk, v) - v)[:, :, 0].abs() / v[:, :, 0].abs()).max()
    # -100000 is spaced by 0.0078 in float32, half of which is what a weight of a quarter may be off
    assert 1e-4 < float(off) < 4e-3


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_hugging_face_in_half_precision_is_off_where_it_is_refused(dtype: str) -> None:
    problem = Problem(B=1, H=4, N=256, D=8, causal=True, dtype=dtype)
    of: Any = registry.load(HUGGING)
    assert of.why_not(Cell(method=HUGGING, problem=problem))
    method = of(problem, bucket_size=16)
    qk, _, v = (x.detach() for x in inputs_of(method))
    first, own = method(qk, qk, v)[:, :, 0].float(), v[:, :, 0].float()
    assert float((first - own).norm() / own.norm()) > 0.05


@pytest.mark.parametrize("N", [128, 192, 256, 4096, 8192, 65536])
@pytest.mark.parametrize("bucket_size", [4, 16, 64])
def test_hugging_face_would_set_the_same_number_of_buckets(N: int, bucket_size: int) -> None:
    method: Any = registry.build(HUGGING, Problem(B=1, H=1, N=N, D=8), bucket_size=bucket_size)
    given = method.attention.num_buckets
    method.attention._set_num_buckets(N)
    assert method.attention.num_buckets == given


def test_the_naive_kda_has_no_gradient_where_a_chunk_loses_much() -> None:
    method: Any = registry.build("delta.kda_fla_naive", Problem(N=64, D=8, causal=True))
    *inputs, log_decay = inputs_of(method)
    strong = torch.full_like(log_decay, -3.0).requires_grad_()
    o, *gradients = evaluated(method, (*inputs, strong), torch.randn_like(inputs[2]), ())
    torch.testing.assert_close(o, method.reference(*inputs, strong), rtol=0, atol=1e-5)
    assert any(x.isnan().any() for x in gradients)


def test_based_is_the_packages_own_plain_function() -> None:
    from fla.ops.based.naive import naive_parallel_based

    method: Any = registry.build("linear.based", Problem(B=2, H=3, N=64, D=16, M=5, causal=True, dtype="float64"))
    inputs = [x.detach() for x in inputs_of(method)]
    torch.testing.assert_close(method(*inputs), naive_parallel_based(*inputs), rtol=0, atol=1e-10)
