"""Attention through landmarks and over pooled keys is its definition, and that definition is what the papers say."""

import itertools
import math
from importlib import import_module
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnbench import Problem, build
from attnbench.api import Cell
from attnbench.registry import UnsupportedError, load

reference: Any = import_module("attnbench_impls.landmark.reference")
pooling: Any = import_module("attnbench_impls.landmark.pooling")
inverses: Any = import_module("attnbench_impls.landmark.pseudo_inverse")

NYSTROM: list[dict[str, Any]] = [
    {"landmarks": 8},
    {"landmarks": 16, "iterations": 2},
    {"landmarks": 8, "convolution_kernel": 5},
]
BINS: list[dict[str, Any]] = [{}, {"bins": "3"}, {"bins": "1,5,2"}]
OURS = [
    *(("landmark.nystrom", params) for params in NYSTROM),
    *(("landmark.pyramid", params) for params in BINS),
]
SHAPE: dict[str, Any] = {"B": 2, "H": 4, "D": 8, "dtype": "float64"}


def evaluated(method: Any, function: Any) -> list[Tensor]:
    """The output, and the gradient of each input and parameter."""
    p = method.problem
    inputs = [x.requires_grad_() for x in type(method).inputs(p, torch.Generator().manual_seed(7))]
    g = torch.randn(p.B, p.H, p.N, p.M, dtype=inputs[0].dtype, generator=torch.Generator().manual_seed(11))
    o = function(*inputs)
    return [o.detach(), *torch.autograd.grad(o, [*inputs, *method.parameters()], g)]


def same(method: Any) -> None:
    got, want = (evaluated(method, function) for function in (method, method.reference))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-10)


@pytest.mark.parametrize("shape", [{}, {"M": 5}, {"M": 12, "B": 1}], ids=str)
@pytest.mark.parametrize("N", [1, 2, 63, 257])
@pytest.mark.parametrize(("name", "params"), OURS, ids=str)
def test_values_and_all_gradients_are_those_of_the_definition(
    name: str, params: dict[str, Any], N: int, shape: dict[str, Any]
) -> None:
    same(build(name, Problem(**{**SHAPE, "N": N, **shape}), **params))


@pytest.mark.parametrize("kv_heads", [1, 2])
def test_heads_of_keys_may_be_shared_over_anchors(kv_heads: int) -> None:
    same(build("landmark.pyramid", Problem(**SHAPE, N=50, kv_heads=kv_heads)))


@settings(max_examples=25, deadline=None)
@given(N=st.integers(1, 40), landmarks=st.integers(1, 45), iterations=st.integers(0, 8))
def test_any_number_of_landmarks_is_cut_alike(N: int, landmarks: int, iterations: int) -> None:
    same(build("landmark.nystrom", Problem(B=1, H=2, N=N, D=4, dtype="float64"), landmarks=landmarks, iterations=iterations))


class TestNystrom:
    @pytest.mark.parametrize("N", [1, 2, 12])
    def test_as_many_landmarks_as_tokens_and_a_converged_inverse_are_softmax(self, N: int) -> None:
        method: Any = build("landmark.nystrom", Problem(B=2, H=2, N=N, D=4, dtype="float64"), landmarks=99, iterations=40)
        inputs = type(method).inputs(method.problem, torch.Generator().manual_seed(1))
        # scores that are far apart, so that the matrix to invert is well conditioned
        q = inputs[0] * 3 + inputs[1] * 9
        torch.testing.assert_close(method(q, *inputs[1:]), method.exact(q, *inputs[1:]), rtol=0, atol=1e-8)

    def test_it_is_the_product_that_the_paper_writes(self) -> None:
        method: Any = build("landmark.nystrom", Problem(B=1, H=1, N=6, D=3, dtype="float64"), landmarks=2, iterations=60)
        q, k, v = type(method).inputs(method.problem, torch.Generator().manual_seed(1))
        q_landmarks, k_landmarks = (torch.stack([x[0, 0, :3].mean(0), x[0, 0, 3:].mean(0)]) for x in (q, k))
        a, b, c = (
            (x @ y.T / math.sqrt(3)).softmax(-1)
            for x, y in ((q[0, 0], k_landmarks), (q_landmarks, k_landmarks), (q_landmarks, k[0, 0]))
        )
        want = a @ torch.linalg.pinv(b) @ c @ v[0, 0]
        torch.testing.assert_close(method.reference(q, k, v)[0, 0], want, rtol=0, atol=1e-9)

    def test_the_first_segments_take_what_is_left_over(self) -> None:
        assert reference.segment_matrix(8, 3, torch.zeros(1)).mul(6).round().int().tolist() == [
            [2, 2, 2, 0, 0, 0, 0, 0],
            [0, 0, 0, 2, 2, 2, 0, 0],
            [0, 0, 0, 0, 0, 0, 3, 3],
        ]

    @pytest.mark.parametrize("S", [1, 2, 17])
    def test_the_iteration_comes_to_the_inverse(self, S: int) -> None:
        a = (torch.randn(3, S, S, dtype=torch.float64) + 6 * torch.eye(S)).softmax(-1)
        torch.testing.assert_close(inverses.pseudo_inverse(a, 30), torch.linalg.inv(a), rtol=0, atol=1e-9)
        torch.testing.assert_close(reference.pseudo_inverse(a, 30), torch.linalg.inv(a), rtol=0, atol=1e-9)

    def test_each_iteration_brings_three_times_as_many_digits(self) -> None:
        a = (torch.randn(1, 9, 9, dtype=torch.float64) / 2 + 3 * torch.eye(9)).softmax(-1)
        off = [float(torch.linalg.matrix_norm(torch.eye(9) - a @ inverses.pseudo_inverse(a, j), 2).amax()) for j in range(2, 6)]
        # ‖I - A Z_{j+1}‖ <= ¼ ‖I - A Z_j‖³ (3 + ‖I - A Z_j‖)
        assert 1e-3 < off[0] < 1
        for before, after in itertools.pairwise(off):
            assert after <= before**3 * (3 + before) / 4 + 1e-12

    def test_a_constant_value_comes_out_nearly_constant_once_the_inverse_has_converged(self) -> None:
        method: Any = build("landmark.nystrom", Problem(B=1, H=2, N=64, D=8, dtype="float64"), landmarks=4, iterations=50)
        q, k, v = type(method).inputs(method.problem, torch.Generator())
        torch.testing.assert_close(method(q, k, torch.ones_like(v)), torch.ones_like(v), rtol=0, atol=1e-6)

    def test_samples_do_not_mix(self) -> None:
        method: Any = build("landmark.nystrom", Problem(**SHAPE, N=40), landmarks=8)
        q, k, v = type(method).inputs(method.problem, torch.Generator())
        o = method(q, k, v)
        q[1] *= 5
        assert torch.equal(method(q, k, v)[0], o[0])
        assert not torch.equal(method(q, k, v)[1], o[1])

    def test_the_residual_is_a_sum_of_shifted_values(self) -> None:
        v, kernel = torch.randn(2, 3, 11, 4, dtype=torch.float64), torch.randn(3, 5, dtype=torch.float64)
        want = torch.zeros_like(v)
        for h, t, n in itertools.product(range(3), range(5), range(11)):
            if 0 <= n + t - 2 < 11:
                want[:, h, n] += kernel[h, t] * v[:, h, n + t - 2]
        torch.testing.assert_close(reference.convolve(v, kernel), want, rtol=0, atol=1e-12)

    def test_a_kernel_with_one_weight_of_one_adds_the_value_itself(self) -> None:
        plain, with_residual = (
            build("landmark.nystrom", Problem(**SHAPE, N=40), landmarks=8, convolution_kernel=T) for T in (0, 3)
        )
        (kernel,) = with_residual.parameters()
        assert kernel.shape == (4, 3)
        inputs = type(plain).inputs(plain.problem, torch.Generator())
        with torch.no_grad():
            kernel.copy_(torch.tensor([0.0, 1.0, 0.0]).expand(4, 3))
            torch.testing.assert_close(with_residual(*inputs), plain(*inputs) + inputs[2], rtol=0, atol=1e-12)


class TestPyramid:
    @pytest.mark.parametrize("N", [1, 7, 64, 100, 257])
    @pytest.mark.parametrize("levels", [(1,), (1, 9, 36, 64), (5, 300)], ids=str)
    def test_anchors_are_those_of_adaptive_average_pooling(self, N: int, levels: tuple[int, ...]) -> None:
        x = torch.randn(2, N, 3, dtype=torch.float64)
        want = torch.cat([torch.nn.functional.adaptive_avg_pool1d(x.mT, n).mT for n in levels], dim=1)
        pool = pooling.AdaptivePooling(N, levels).double()
        torch.testing.assert_close(pool(x), want, rtol=0, atol=1e-12)
        torch.testing.assert_close(reference.pooling_matrix(N, levels, x) @ x, want, rtol=0, atol=1e-12)

    def test_tiles_are_much_smaller_than_the_dense_matrix(self) -> None:
        tiles, met, size = pooling.factored_size(4096, (1, 9, 36, 64))
        assert (tiles, size) == (32, 128)
        assert met <= 11

    @pytest.mark.parametrize("N", [1, 12, 40])
    def test_one_bin_for_each_token_is_softmax(self, N: int) -> None:
        method: Any = build("landmark.pyramid", Problem(**SHAPE, N=N), bins=str(N))
        inputs = type(method).inputs(method.problem, torch.Generator())
        torch.testing.assert_close(method(*inputs), method.exact(*inputs), rtol=0, atol=1e-12)

    def test_one_bin_in_all_is_the_mean_of_values(self) -> None:
        method: Any = build("landmark.pyramid", Problem(**SHAPE, N=33), bins="1")
        q, k, v = type(method).inputs(method.problem, torch.Generator())
        torch.testing.assert_close(method(q, k, v), v.mean(2, keepdim=True).expand_as(v), rtol=0, atol=1e-12)

    def test_there_are_110_anchors(self) -> None:
        method: Any = build("landmark.pyramid", Problem(N=500))
        assert len(method.pool.lengths) == 110


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(("name", "params"), OURS, ids=str)
def test_a_dtype_costs_no_more_accuracy_than_the_definition_in_it(name: str, params: dict[str, Any], dtype: str) -> None:
    method: Any = build(name, Problem(B=2, H=2, N=256, D=16, dtype=dtype), **params)
    got, eager = (evaluated(method, function) for function in (method, method.reference))
    inputs = [x.double().requires_grad_() for x in type(method).inputs(method.problem, torch.Generator().manual_seed(7))]
    p, wide = method.problem, method.double()
    g = torch.randn(p.B, p.H, p.N, p.M, dtype=got[0].dtype, generator=torch.Generator().manual_seed(11)).double()
    o = wide.reference(*inputs)
    exact = [o.detach(), *torch.autograd.grad(o, [*inputs, *wide.parameters()], g)]
    for x, e, r in zip(got, eager, exact, strict=True):
        slack = 4 * torch.finfo(x.dtype).eps * float(r.abs().max())
        assert float((x.double() - r).abs().max()) <= 2 * float((e.double() - r).abs().max()) + slack


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("landmark.nystrom", {"causal": True}, "mixes all segments"),
        ("landmark.nystrom", {"kv_heads": 2}, "kv_heads must equal H"),
        ("landmark.pyramid", {"causal": True}, "tokens before and after"),
        ("landmark.nystrom_attention", {"causal": True}, "no causal form"),
        ("landmark.nystrom_attention", {"kv_heads": 2}, "kv_heads must equal H"),
        ("landmark.nystrom_attention", {"dtype": "bfloat16"}, "identity matrix is float32"),
        ("landmark.nystrom_attention", {"N": 65}, "N=65 must be a multiple of landmarks=64"),
        *((f"landmark.{name}", {"padding": 0.5}, "no key mask") for name in ("nystrom", "pyramid", "nystrom_attention")),
    ],
)
def test_each_limit_is_said_in_words(name: str, shape: dict[str, Any], words: str) -> None:
    assert words in (load(name).refusal(Cell(method=name, problem=Problem(**{"N": 64, **shape}))) or "")
    assert load(name).refusal(Cell(method=name, problem=Problem(N=64, M=32))) is None


def test_a_causal_problem_is_not_built() -> None:
    for name in ("landmark.nystrom", "landmark.pyramid"):
        with pytest.raises(UnsupportedError, match="hide the future"):
            build(name, Problem(N=64, causal=True))


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("landmark.nystrom", {"landmarks": 0}),
        ("landmark.nystrom", {"iterations": -1}),
        ("landmark.nystrom", {"convolution_kernel": 4}),
        ("landmark.nystrom", {"convolution_kernel": 3.0}),
        *(("landmark.pyramid", {"bins": bins}) for bins in ("", "1,,2", "0,1", "1;9", 7, "-1")),
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


def test_a_bin_may_hold_more_tokens_than_float16_can_count() -> None:
    method: Any = build("landmark.pyramid", Problem(N=65536, H=1, D=2, dtype="float16"), bins="1,9")
    x = torch.randn(1, 65536, 2).add_(2).half()
    torch.testing.assert_close(method.pool(x)[0, 0].float(), x.float().mean(1)[0], rtol=2e-3, atol=0)


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
    torch.testing.assert_close([x.cpu() for x in got], list(want), rtol=1e-2, atol=1e-3)
