"""Attention over projected keys is its definition, and that definition is what the paper says."""

import math
from itertools import pairwise
from typing import Any

import pytest
import torch

from attnbench import Problem, build

OURS: list[tuple[str, dict[str, Any]]] = [
    *(("linformer.linformer", {"sharing": sharing}) for sharing in ("none", "headwise", "key_value", "layerwise")),
    ("linformer.mean", {}),
    ("linformer.convolution", {}),
]
SHAPE: dict[str, Any] = {"B": 2, "H": 4, "D": 8, "dtype": "float64"}


class TestTheDefinition:
    """The reference, against what is known of it."""

    @pytest.mark.parametrize(("name", "params"), OURS, ids=str)
    def test_as_many_keys_as_tokens_projected_by_the_identity_are_softmax(self, name: str, params: dict[str, Any]) -> None:
        method: Any = build(name, Problem(**SHAPE, N=30), k=99, **params)
        inputs = type(method).inputs(method.problem, torch.Generator())
        with torch.no_grad():
            for parameter in method.parameters():
                identity = torch.eye(30) if name == "linformer.linformer" else torch.ones(())
                parameter.copy_(identity.expand_as(parameter))
            torch.testing.assert_close(method.reference(*inputs), method.exact(*inputs), rtol=0, atol=1e-12)

    @pytest.mark.parametrize("sharing", ["none", "headwise", "key_value", "layerwise"])
    def test_it_is_the_sum_that_the_paper_writes(self, sharing: str) -> None:
        method: Any = build("linformer.linformer", Problem(B=1, H=2, N=5, D=3, dtype="float64"), k=2, sharing=sharing)
        q, k, v = type(method).inputs(method.problem, torch.Generator())
        keys_by, values_by = (x.detach().expand(2, 2, 5) for x in (method.E, method.E if method.F is None else method.F))
        o = torch.zeros(1, 2, 5, 3, dtype=torch.float64)
        for h in range(2):
            keys = [sum(keys_by[h, s, j] * k[0, h, j] for j in range(5)) for s in range(2)]
            values = [sum(values_by[h, s, j] * v[0, h, j] for j in range(5)) for s in range(2)]
            for i in range(5):
                weights = [math.exp(float(q[0, h, i] @ key) / math.sqrt(3)) for key in keys]
                o[0, h, i] = sum(w * value for w, value in zip(weights, values, strict=True)) / sum(weights)
        torch.testing.assert_close(method.reference(q, k, v).detach(), o, rtol=0, atol=1e-12)

    def test_block_means_are_average_pooling(self) -> None:
        method: Any = build("linformer.mean", Problem(**SHAPE, N=60), k=12)
        q, k, v = type(method).inputs(method.problem, torch.Generator())
        keys, values = (torch.nn.functional.avg_pool1d(x.mT.flatten(0, 1), 5).unflatten(0, (2, 4)).mT for x in (k, v))
        o = torch.nn.functional.scaled_dot_product_attention(q, keys, values)
        torch.testing.assert_close(method(q, k, v), o, rtol=0, atol=1e-12)

    def test_the_last_mean_is_over_the_tokens_that_its_block_has(self) -> None:
        method: Any = build("linformer.mean", Problem(B=1, H=1, N=5, D=1, dtype="float64"), k=2)
        x = torch.tensor([1.0, 2.0, 3.0, 4.0, 6.0], dtype=torch.float64)[None, :, None, None]
        assert method.project(x, x)[0].flatten().tolist() == [2.0, 5.0]

    def test_a_convolution_of_ones_is_a_sum_over_blocks(self) -> None:
        method: Any = build("linformer.convolution", Problem(B=1, H=1, N=5, D=1, dtype="float64"), k=2)
        with torch.no_grad():
            method.kernel_of_keys.fill_(1)
        x = torch.tensor([1.0, 2.0, 3.0, 4.0, 6.0], dtype=torch.float64)[None, :, None, None]
        assert method.project(x, x)[0].flatten().tolist() == [6.0, 10.0]

    def test_it_is_torch_s_depthwise_convolution(self) -> None:
        method: Any = build("linformer.convolution", Problem(B=2, H=1, N=24, D=6, dtype="float64"), k=6)
        _, k, _ = type(method).inputs(method.problem, torch.Generator())
        kernel = method.kernel_of_keys[:, 0].mT.unsqueeze(1)
        want = torch.nn.functional.conv1d(k[:, 0].mT, kernel, stride=4, groups=6)
        got, _ = method.project(k.transpose(1, 2), k.transpose(1, 2))
        torch.testing.assert_close(got[:, :, 0].mT, want, rtol=0, atol=1e-12)


def test_parameters_are_shared_as_the_paper_counts_them() -> None:
    problem = Problem(H=12, N=64)
    sizes = {
        sharing: [tuple(x.shape) for x in build("linformer.linformer", problem, k=16, sharing=sharing).parameters()]
        for sharing in ("none", "headwise", "key_value", "layerwise")
    }
    assert sizes == {
        "none": [(12, 16, 64)] * 2,
        "headwise": [(1, 16, 64)] * 2,
        "key_value": [(1, 16, 64)],
        "layerwise": [(1, 16, 64)],
    }
    # of 12 layers: 288, 24, 12 matrices, and 1
    assert [12 * sum(shape[0] for shape in shapes) for shapes in sizes.values()] == [288, 24, 12, 12]


def test_parameters_are_drawn_between_the_bounds() -> None:
    for x in build("linformer.linformer", Problem(N=512), k=100).parameters():
        assert 0.099 < float(x.detach().abs().max()) <= 0.1
        assert abs(float(x.detach().mean())) < 0.001
    for x in build("linformer.convolution", Problem(N=512), k=20).parameters():
        assert x.shape == (26, 8, 64)
        assert float(x.detach().abs().max()) <= 26**-0.5


def test_all_dtypes_round_the_same_parameters() -> None:
    drawn = []
    for dtype in ("float32", "float64", "bfloat16"):
        torch.manual_seed(3)
        (x, _) = build("linformer.linformer", Problem(N=64, dtype=dtype), k=8).parameters()
        drawn.append(x.detach().bfloat16())
    assert all(torch.equal(a, b) for a, b in pairwise(drawn))
