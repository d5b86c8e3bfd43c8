"""Attention through landmarks and over pooled keys is its definition, and that definition is what the papers say."""

import itertools
import math
from importlib import import_module
from typing import Any

import pytest
import torch

from attnbench import Problem, build

reference: Any = import_module("attnbench_impls.landmark.reference")
pooling: Any = import_module("attnbench_impls.landmark.pooling")
inverses: Any = import_module("attnbench_impls.landmark.pseudo_inverse")

SHAPE: dict[str, Any] = {"B": 2, "H": 4, "D": 8, "dtype": "float64"}


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

    def test_one_bin_in_all_is_the_mean_of_values(self) -> None:
        method: Any = build("landmark.pyramid", Problem(**SHAPE, N=33), bins="1")
        q, k, v = type(method).inputs(method.problem, torch.Generator())
        torch.testing.assert_close(method(q, k, v), v.mean(2, keepdim=True).expand_as(v), rtol=0, atol=1e-12)

    def test_there_are_110_anchors(self) -> None:
        method: Any = build("landmark.pyramid", Problem(N=500))
        assert len(method.pool.lengths) == 110


def test_a_bin_may_hold_more_tokens_than_float16_can_count() -> None:
    method: Any = build("landmark.pyramid", Problem(N=65536, H=1, D=2, dtype="float16"), bins="1,9")
    x = torch.randn(1, 65536, 2).add_(2).half()
    torch.testing.assert_close(method.pool(x)[0, 0].float(), x.float().mean(1)[0], rtol=2e-3, atol=0)
