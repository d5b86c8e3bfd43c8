"""Attention over fewer keys: landmarks, pooled and projected keys, pooled queries, tokens chosen by the attention they get."""

import math
from importlib import import_module
from itertools import pairwise, product
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from attnbench import Problem, build
from attnbench.measure.profiler_memory import torch_profiler_peak
from tests.impls.contract.calls import Call, inputs_of
from tests.impls.contract.subjects import Variant

# by name: installed under another name than that of its folder
landmark: Any = import_module("attnbench_impls.landmark.reference")
pyramid: Any = import_module("attnbench_impls.landmark.pooling")
inverses: Any = import_module("attnbench_impls.landmark.pseudo_inverse")
elimination: Any = import_module("attnbench_impls.pooling.elimination")

SHARED = ("none", "headwise", "key_value", "layerwise")


def built(name: str, N: int, shape: dict[str, Any] | None = None, **params: Any) -> tuple[Any, tuple[Tensor, ...]]:
    """A method, and inputs that ask for no gradients."""
    method: Any = build(name, Problem(**{"B": 2, "H": 4, "N": N, "D": 8, "dtype": "float64", **(shape or {})}), **params)
    return method, tuple(x.detach() for x in inputs_of(method))


def naive_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """One query: [D], [S, D], [S, M]."""
    weights = torch.stack([(q @ key / q.shape[0] ** 0.5).exp() for key in k])
    return torch.stack([share * value for share, value in zip(weights / weights.sum(), v, strict=True)]).sum(0)


class TestLandmarks:
    @pytest.mark.parametrize("N", [1, 2, 12])
    def test_as_many_as_tokens_and_a_converged_inverse_are_softmax(self, N: int) -> None:
        method, (q, k, v) = built("landmark.nystrom", N, {"H": 2, "D": 4}, landmarks=99, iterations=40)
        # scores that are far apart, so that the matrix to invert is well conditioned
        q = q * 3 + k * 9
        torch.testing.assert_close(method(q, k, v), method.exact(q, k, v), rtol=0, atol=1e-8)
        anchored, inputs = built("landmark.pyramid", N, bins=str(N))
        torch.testing.assert_close(anchored(*inputs), anchored.exact(*inputs), rtol=0, atol=1e-10)

    def test_they_are_the_product_that_the_paper_writes(self) -> None:
        # of five tokens, the first landmark takes the one that is left over
        method, (q, k, v) = built("landmark.nystrom", 5, {"B": 1, "H": 1, "D": 3}, landmarks=2, iterations=60)
        q_landmarks, k_landmarks = (torch.stack([x[0, 0, :3].mean(0), x[0, 0, 3:].mean(0)]) for x in (q, k))
        a, b, c = (
            (x @ y.T / math.sqrt(3)).softmax(-1)
            for x, y in ((q[0, 0], k_landmarks), (q_landmarks, k_landmarks), (q_landmarks, k[0, 0]))
        )
        want = a @ torch.linalg.pinv(b) @ c @ v[0, 0]
        torch.testing.assert_close(method.reference(q, k, v)[0, 0], want, rtol=0, atol=1e-9)

    @pytest.mark.parametrize("S", [1, 2, 17])
    def test_the_iteration_comes_to_the_inverse_each_time_with_three_times_as_many_digits(self, S: int) -> None:
        a = (torch.randn(3, S, S, dtype=torch.float64) + 6 * torch.eye(S)).softmax(-1)
        for iterated in (inverses.pseudo_inverse(a, 30), landmark.pseudo_inverse(a, 30)):
            torch.testing.assert_close(iterated, torch.linalg.inv(a), rtol=0, atol=1e-9)
        a = (torch.randn(1, 9, 9, dtype=torch.float64) / 2 + 3 * torch.eye(9)).softmax(-1)
        off = [float(torch.linalg.matrix_norm(torch.eye(9) - a @ inverses.pseudo_inverse(a, j), 2).amax()) for j in range(2, 6)]
        # ‖I - A Z_{j+1}‖ <= ¼ ‖I - A Z_j‖³ (3 + ‖I - A Z_j‖)
        assert 1e-3 < off[0] < 1
        for before, after in pairwise(off):
            assert after <= before**3 * (3 + before) / 4 + 1e-12

    def test_the_residual_is_a_sum_of_shifted_values_by_a_kernel_of_each_head(self) -> None:
        (plain, inputs), (residual, _) = (built("landmark.nystrom", 11, landmarks=4, convolution_kernel=T) for T in (0, 5))
        (kernel,), v = residual.parameters(), inputs[2]
        torch.nn.init.normal_(kernel)
        want = plain(*inputs)
        for h, t, n in product(range(4), range(5), range(11)):
            if 0 <= n + t - 2 < 11:
                want[:, h, n] += kernel[h, t].detach() * v[:, h, n + t - 2]
        torch.testing.assert_close(residual(*inputs).detach(), want, rtol=0, atol=1e-12)

    @pytest.mark.parametrize("N", [1, 7, 64, 100, 257])
    @pytest.mark.parametrize("levels", [(1,), (1, 9, 36, 64), (5, 300)], ids=str)
    def test_anchors_are_those_of_adaptive_average_pooling(self, N: int, levels: tuple[int, ...]) -> None:
        x = torch.randn(2, N, 3, dtype=torch.float64)
        want = torch.cat([F.adaptive_avg_pool1d(x.mT, n).mT for n in levels], dim=1)
        torch.testing.assert_close(pyramid.AdaptivePooling(N, levels).double()(x), want, rtol=0, atol=1e-12)
        torch.testing.assert_close(landmark.pooling_matrix(N, levels, x) @ x, want, rtol=0, atol=1e-12)

    def test_a_bin_may_hold_more_tokens_than_float16_can_count(self) -> None:
        method: Any = build("landmark.pyramid", Problem(N=65536, H=1, D=2, dtype="float16"), bins="1,9")
        x = torch.randn(1, 65536, 2).add_(2).half()
        torch.testing.assert_close(method.pool(x)[0, 0].float(), x.float().mean(1)[0], rtol=2e-3, atol=0)


class TestProjections:
    @pytest.mark.parametrize(
        ("name", "params"),
        [
            *(("linformer.linformer", {"sharing": sharing}) for sharing in SHARED),
            *((f"linformer.{name}", {}) for name in ("mean", "convolution")),
        ],
        ids=str,
    )
    def test_as_many_keys_as_tokens_projected_by_the_identity_are_softmax(self, name: str, params: dict[str, Any]) -> None:
        method, inputs = built(name, 30, k=99, **params)
        for parameter in method.parameters():
            identity = torch.eye(30) if name == "linformer.linformer" else torch.ones(())
            parameter.data = identity.expand_as(parameter).to(parameter.dtype)
        torch.testing.assert_close(method.reference(*inputs).detach(), method.exact(*inputs), rtol=0, atol=1e-12)

    @pytest.mark.parametrize("sharing", SHARED)
    def test_they_are_the_sum_that_the_paper_writes(self, sharing: str) -> None:
        method, (q, k, v) = built("linformer.linformer", 5, {"B": 1, "H": 2, "D": 3}, k=2, sharing=sharing)
        keys_by, values_by = (x.detach().expand(2, 2, 5) for x in (method.E, method.E if method.F is None else method.F))
        for h, i in product(range(2), range(5)):
            keys = torch.stack([(keys_by[h, s, :, None] * k[0, h]).sum(0) for s in range(2)])
            values = torch.stack([(values_by[h, s, :, None] * v[0, h]).sum(0) for s in range(2)])
            want = naive_attention(q[0, h, i], keys, values)
            torch.testing.assert_close(method.reference(q, k, v)[0, h, i].detach(), want, rtol=0, atol=1e-12)

    @pytest.mark.parametrize(("name", "want"), [("mean", [2.0, 5.0]), ("convolution", [6.0, 10.0])])
    def test_the_last_block_is_of_the_tokens_that_it_has(self, name: str, want: list[float]) -> None:
        method, _ = built(f"linformer.{name}", 5, {"B": 1, "H": 1, "D": 1}, k=2)
        for kernel in method.parameters():
            torch.nn.init.ones_(kernel)
        x = torch.tensor([1.0, 2.0, 3.0, 4.0, 6.0], dtype=torch.float64)[None, :, None, None]
        assert method.project(x, x)[0].flatten().tolist() == want

    def test_a_convolution_is_torch_s_depthwise_one(self) -> None:
        method, (_, k, _) = built("linformer.convolution", 24, {"H": 1, "D": 6}, k=6)
        want = F.conv1d(k[:, 0].mT, method.kernel_of_keys[:, 0].mT.unsqueeze(1), stride=4, groups=6)
        got, _ = method.project(k.transpose(1, 2), k.transpose(1, 2))
        torch.testing.assert_close(got[:, :, 0].mT, want, rtol=0, atol=1e-12)

    def test_parameters_are_shared_as_the_paper_counts_them(self) -> None:
        problem = Problem(H=12, N=64)
        methods = [build("linformer.linformer", problem, k=16, sharing=sharing) for sharing in SHARED]
        shapes = [[tuple(x.shape) for x in method.parameters()] for method in methods]
        assert shapes == [[(12, 16, 64)] * 2, [(1, 16, 64)] * 2, [(1, 16, 64)], [(1, 16, 64)]]

    def test_parameters_are_drawn_between_the_bounds_and_rounded_to_each_dtype(self) -> None:
        for x in build("linformer.linformer", Problem(N=512), k=100).parameters():
            assert 0.099 < float(x.detach().abs().max()) <= 0.1
            assert abs(float(x.detach().mean())) < 0.001
        for x in build("linformer.convolution", Problem(N=512), k=20).parameters():
            assert x.shape == (26, 8, 64)
            assert float(x.detach().abs().max()) <= 26**-0.5
        drawn = []
        for dtype in ("float32", "float64", "bfloat16"):
            torch.manual_seed(3)
            (x, _) = build("linformer.linformer", Problem(N=64, dtype=dtype), k=8).parameters()
            drawn.append(x.detach().bfloat16())
        assert all(torch.equal(a, b) for a, b in pairwise(drawn))


class TestPooling:
    def test_the_definition_is_a_mean_over_each_block_and_softmax(self) -> None:
        one = {"B": 1, "H": 1}
        (pooled, inputs), (funnel, _) = (built(f"pooling.{name}", 11, one, factor=4) for name in ("key_value", "funnel"))
        q, k, v = (x[0, 0] for x in inputs)
        queries, keys, values = (torch.stack([x[a : a + 4].mean(0) for a in range(0, 11, 4)]) for x in (q, k, v))
        want = torch.stack([naive_attention(row, keys, values) for row in q])
        torch.testing.assert_close(pooled.reference(*inputs)[0, 0], want, rtol=0, atol=1e-12)
        want = torch.stack([naive_attention(queries[i // 4], k, v) for i in range(11)])
        torch.testing.assert_close(funnel.reference(*inputs)[0, 0], want, rtol=0, atol=1e-12)

    @pytest.mark.usefixtures("one_thread")
    def test_a_block_that_is_longer_than_the_sequence_takes_no_more_memory(self) -> None:
        peaks = []
        for factor in (512, 10**6):
            call = Call(Variant("pooling.funnel", {"factor": factor}), Problem(B=2, H=4, N=512, D=8, M=5))
            call.forward()
            peaks.append(torch_profiler_peak(call.forward).bytes)
        assert peaks[0] == peaks[1]

    def test_those_that_get_the_most_attention_attend_to_each_other_and_the_others_get_nothing(self) -> None:
        method, (q, k, v) = built("pooling.power_bert", 11, {"B": 1, "H": 2, "M": 5}, keep=0.4)
        weights = [(k[0, h] @ q[0, h, i] / 8**0.5).softmax(0) for h, i in product(range(2), range(11))]
        got = torch.stack(weights).sum(0)
        torch.testing.assert_close(elimination.significance(q, k, 8**-0.5)[0], got, rtol=0, atol=1e-12)
        kept = sorted(sorted(range(11), key=lambda j: -float(got[j]))[:4])
        assert method.choose(q, k, v).tolist() == [[kept]]
        o = method(q, k, v)
        for h, i in product(range(2), range(11)):
            want = naive_attention(q[0, h, i], k[0, h, kept], v[0, h, kept]) if i in kept else torch.zeros(5).double()
            torch.testing.assert_close(o[0, h, i], want, rtol=0, atol=1e-12)
        assert o[0, :, kept].abs().amin() > 0

    @pytest.mark.parametrize(("N", "keep", "kept"), [(11, 0.4, 4), (3, 0.01, 1), (1, 0.5, 1), (7, 1, 7), (100, 0.29, 29)])
    def test_as_many_are_kept_as_were_asked_for_but_one_at_least_and_of_equals_the_earlier(
        self, N: int, keep: float, kept: int
    ) -> None:
        method, inputs = built("pooling.power_bert", N, keep=keep)
        assert method.choose(*inputs).shape == (2, 1, kept)
        assert method.choose(*(torch.ones_like(x) for x in inputs)).tolist() == [[list(range(kept))]] * 2

    def test_the_same_are_kept_however_many_scores_are_held(self, monkeypatch: pytest.MonkeyPatch) -> None:
        method, inputs = built("pooling.power_bert", 45, {"kv_heads": 2}, keep=0.3)
        want = method.choose(*inputs)
        for scores in (1, 100, 1000):
            monkeypatch.setattr(elimination, "SCORES", scores)
            assert torch.equal(method.choose(*inputs), want)
