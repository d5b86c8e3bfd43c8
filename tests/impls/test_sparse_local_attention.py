"""The package local-attention sees exactly the window that is said of it."""

from importlib import import_module
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbench import Problem
from attnbench.api import Cell, Workload
from attnbench.measure.profiler_memory import torch_profiler_peak

package: Any = import_module("attnbench_impls.sparse.local_attention")
neighbours: Any = import_module("attnbench_impls.sparse.neighbours")
pattern: Any = import_module("attnbench_impls.sparse.pattern")

Local = package.LocalAttentionWindow
BOTH = Workload.FORWARD_BACKWARD


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [1, 7, 64])
@pytest.mark.parametrize("N", [1, 63, 64, 257])
def test_it_is_its_definition_with_its_gradients(
    N: int, window: int, causal: bool, inputs_of: Any, gradient_of: Any, evaluate: Any
) -> None:
    method = Local(Problem(B=2, H=3, N=N, D=8, M=5, causal=causal, dtype="float64"), window=window)
    inputs, g = inputs_of(method), gradient_of(method)
    got, want = (evaluate(method, function, inputs, g) for function in ("forward", "reference"))
    torch.testing.assert_close(got, want, rtol=0, atol=1e-10)


@given(N=st.integers(1, 50), window=st.integers(1, 20), causal=st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_window_pattern_sees_the_same_keys(N: int, window: int, causal: bool) -> None:
    method = Local(Problem(B=1, H=1, N=N, D=2, causal=causal, dtype="float64"), window=window)
    # with keys of zeros and values of one token each, an output tells who was seen
    q = torch.zeros(1, 1, N, 2, dtype=torch.float64)
    seen = method(q, q, torch.eye(N, dtype=torch.float64)[None, None])[0, 0] > 0
    same = neighbours.Window(window + 1 if causal else 2 * window)
    assert torch.equal(seen, same.seen(pattern.Shape(N, 1, causal))[0])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_in_half_precision_it_is_still_near(dtype: str, inputs_of: Any) -> None:
    method = Local(Problem(B=1, H=2, N=100, D=16, causal=True, dtype=dtype), window=16)
    inputs = [x.detach() for x in inputs_of(method)]
    want = method.reference(*(x.double() for x in inputs)).to(inputs[0].dtype)
    eps = 8 * torch.finfo(want.dtype).eps
    torch.testing.assert_close(method(*inputs), want, rtol=eps, atol=eps)


def test_the_future_changes_nothing_before_it(inputs_of: Any) -> None:
    method = Local(Problem(B=1, H=2, N=70, D=8, causal=True), window=16)
    q, k, v = (x.detach() for x in inputs_of(method))
    o = method(q, k, v)
    for x in (q, k, v):
        x[:, :, 40:] = 3 - x[:, :, 40:]
    assert torch.equal(method(q, k, v)[:, :, :40], o[:, :, :40])


@pytest.mark.parametrize("workload", [Workload.FORWARD, BOTH])
@pytest.mark.parametrize("shape", [{}, {"causal": True, "M": 32}, {"B": 1, "N": 1000}, {"dtype": "bfloat16"}], ids=str)
@pytest.mark.parametrize("window", [64, 256])
def test_the_predicted_peak_is_what_torch_allocates(
    window: int, shape: dict[str, Any], workload: Workload, inputs_of: Any, gradient_of: Any, evaluate: Any
) -> None:
    method = Local(Problem(**{"B": 2, "H": 4, "N": 1024, "D": 64, **shape}), window=window)
    inputs, g = inputs_of(method), gradient_of(method)

    def call() -> object:
        if workload is BOTH:
            return evaluate(method, "forward", inputs, g)
        with torch.no_grad():
            return method(*inputs)

    call()
    cost = Local.cost(method.problem, {"window": window}, workload)
    assert torch_profiler_peak(call).bytes == pytest.approx(cost.peak_bytes, rel=0.1)


def test_whole_buckets_are_computed_of_which_the_window_needs_half_or_two_thirds() -> None:
    for causal, share in ((True, 1 / 2), (False, 2 / 3)):
        for workload in (Workload.FORWARD, BOTH):
            cost = Local.cost(Problem(B=2, H=4, N=65536, D=64, causal=causal), {"window": 64}, workload)
            assert cost.exact_flops == pytest.approx(share * cost.executed_flops, rel=0.02)


def test_its_limits_and_mistakes_are_said_in_words() -> None:
    assert Local.refusal(Cell(method="x", problem=Problem(N=65, causal=True))) is None
    assert "kv_heads must equal H" in Local.refusal(Cell(method="x", problem=Problem(N=64, H=4, kv_heads=2)))
    assert (
        Local.refusal(Cell(method="x", problem=Problem(N=64, padding=0.5)))
        == "it takes no key mask, so there can be no padding"
    )
    with pytest.raises(ValueError, match="window=0"):
        Local(Problem(N=64), window=0)
    with pytest.raises(ValueError, match="window=0"):
        Local.cost(Problem(N=64), {"window": 0}, Workload.FORWARD)
    with pytest.raises(TypeError, match="colour"):
        Local.cost(Problem(N=64), {"colour": 3}, Workload.FORWARD)
