"""Every way to compute softmax attention gives softmax attention, in float64, with its gradients."""

from typing import Any

import pytest
import torch

from attnbench import Problem, build
from attnbench.registry import load

FORCED = ["softmax.sdpa_math", "softmax.sdpa_flash", "softmax.recompute"]
SHAPES: list[dict[str, Any]] = [
    *({"N": N, "causal": causal} for N in (1, 63, 64, 257) for causal in (False, True)),
    *({"N": 65, "causal": causal, "H": 4, "kv_heads": K} for K in (1, 2) for causal in (False, True)),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", FORCED)
def test_values_and_gradients_are_those_of_the_definition(
    name: str, shape: dict[str, Any], inputs_of: Any, gradient_of: Any, evaluate: Any
) -> None:
    method = build(name, Problem(**{"B": 2, "H": 2, "D": 8, "dtype": "float64", **shape}))
    inputs, g = inputs_of(method), gradient_of(method)
    got, want = (evaluate(method, function, inputs, g) for function in ("forward", "reference"))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["softmax.sdpa_math", "softmax.recompute"])
@pytest.mark.parametrize("causal", [False, True])
def test_values_of_another_width_too(name: str, causal: bool, inputs_of: Any, gradient_of: Any, evaluate: Any) -> None:
    method = build(name, Problem(B=2, H=4, kv_heads=2, N=70, D=8, M=5, causal=causal, dtype="float64"))
    inputs, g = inputs_of(method), gradient_of(method)
    got, want = (evaluate(method, function, inputs, g) for function in ("forward", "reference"))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-10)


@pytest.mark.parametrize("t", [1, 64, 100])
@pytest.mark.parametrize("name", FORCED)
def test_the_future_changes_nothing_before_it(name: str, t: int, inputs_of: Any) -> None:
    method = build(name, Problem(B=1, H=2, N=150, D=8, causal=True))
    q, k, v = (x.detach() for x in inputs_of(method))
    o = method(q, k, v)
    for x in (q, k, v):
        x[:, :, t:] = 3 - x[:, :, t:]
    changed = method(q, k, v)
    assert torch.equal(changed[:, :, :t], o[:, :, :t])
    assert not torch.equal(changed[:, :, t:], o[:, :, t:])


@pytest.mark.parametrize("name", ["softmax.naive", "softmax.sdpa", *FORCED])
def test_equal_keys_give_the_mean_of_what_is_seen(name: str) -> None:
    method = build(name, Problem(B=1, H=1, N=50, D=4, causal=True, dtype="float64"))
    q, v = (torch.randn(1, 1, 50, 4, dtype=torch.float64) for _ in "qv")
    means = v.cumsum(2) / torch.arange(1, 51).unsqueeze(1)
    torch.testing.assert_close(method(q, torch.ones_like(q), v), means, rtol=0, atol=1e-12)


@pytest.mark.cuda
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("backend", ["math", "flash", "efficient", "cudnn"])
def test_a_gpu_computes_the_same_in_every_backend(backend: str, causal: bool, inputs_of: Any, evaluate: Any) -> None:
    # the class itself: `build` would ask for the limits of a CPU
    method = load(f"softmax.sdpa_{backend}")(Problem(B=2, H=4, N=257, D=64, causal=causal, dtype="bfloat16"))
    inputs = [x.detach().cuda().requires_grad_() for x in inputs_of(method)]
    wide = [x.detach().float().requires_grad_() for x in inputs]
    g = torch.randn_like(inputs[0])
    got, want = evaluate(method, "forward", inputs, g), evaluate(method, "reference", wide, g.float())
    for o, r in zip(got, want, strict=True):
        torch.testing.assert_close(o.float(), r, rtol=0.03, atol=0.03)
