"""Exact attention with one tensor as query and key."""

from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench import Problem, build
from attnbench.api import Workload
from attnbench.measure.profiler_memory import torch_profiler_peak
from attnbench.registry import load

NAME = "lsh.full"
BOTH = Workload.FORWARD_BACKWARD


def attend_one_by_one(qk: Tensor, v: Tensor, scale: float, causal: bool) -> Tensor:
    """Row by row over what is there beside the token; the token itself where that is nothing. [N, D], [N, M] -> [N, M]."""
    keys, rows = qk / qk.norm(dim=-1, keepdim=True), []
    for i in range(len(qk)):
        others = [j for j in range(i if causal else len(qk)) if j != i] or [i]
        rows.append((keys[others] @ qk[i] * scale).softmax(-1) @ v[others])
    return torch.stack(rows)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("temperature", ["package", "paper"])
def test_a_token_sees_all_others_and_itself_only_if_there_are_none(temperature: str, causal: bool, inputs_of: Any) -> None:
    for N in (1, 2, 9):
        method = build(NAME, Problem(B=1, H=1, N=N, D=8, M=3, causal=causal, dtype="float64"), temperature=temperature)
        qk, _, v = (x.detach() for x in inputs_of(method))
        want = attend_one_by_one(qk[0, 0], v[0, 0], 1.0 if temperature == "paper" else 8**-0.5, causal)
        torch.testing.assert_close(method.reference(qk, qk, v)[0, 0], want, rtol=0, atol=1e-12)
        torch.testing.assert_close(method(qk, qk, v)[0, 0], want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("step", [1, 8])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("M", [5, 8, 13])
@pytest.mark.parametrize("N", [1, 2, 63, 64, 257])
def test_values_and_gradients_are_those_of_the_definition(
    N: int, M: int, causal: bool, step: int, inputs_of: Any, gradient_of: Any, evaluate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # as on a GPU, whose kernels want each row of the mask at a multiple of 16 bytes
    monkeypatch.setattr(f"{load(NAME).__module__}._step", lambda _: step)
    method = build(NAME, Problem(B=2, H=2, N=N, D=8, M=M, causal=causal, dtype="float64"))
    inputs, g = inputs_of(method), gradient_of(method)
    for a, b in zip(evaluate(method, "forward", inputs, g), evaluate(method, "reference", inputs, g), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-10)


@pytest.mark.parametrize("t", [1, 63, 64, 100])
def test_the_future_changes_nothing_before_it(t: int, inputs_of: Any) -> None:
    method = build(NAME, Problem(B=1, H=2, N=150, D=8, causal=True))
    qk, _, v = (x.detach() for x in inputs_of(method))
    o = method(qk, qk, v)
    for x in (qk, v):
        x[:, :, t:] = 3 - x[:, :, t:]
    assert torch.equal(method(qk, qk, v)[:, :, :t], o[:, :, :t])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_dtype_costs_no_more_than_in_the_definition(
    dtype: str, causal: bool, inputs_of: Any, gradient_of: Any, evaluate: Any
) -> None:
    method = build(NAME, Problem(B=1, H=2, N=256, D=32, causal=causal, dtype=dtype))
    (qk, _, v), g = inputs_of(method), gradient_of(method)
    wide = qk.detach().double().requires_grad_(), v.detach().double().requires_grad_()
    got, eager = (evaluate(method, function, (qk, qk, v), g) for function in ("forward", "reference"))
    exact = evaluate(method, "reference", (wide[0], *wide), g.double())
    for o, e, r in zip(got, eager, exact, strict=True):
        slack = 4 * torch.finfo(o.dtype).eps * float(r.abs().max())
        assert float((o - r).abs().max()) <= 2 * float((e - r).abs().max()) + slack


def test_no_tensor_of_pairs_is_made(inputs_of: Any) -> None:
    method = build(NAME, Problem(B=1, H=1, N=2048, D=8))
    inputs = inputs_of(method)
    with torch.no_grad():
        peak = torch_profiler_peak(lambda: method(*inputs)).bytes
    assert peak is not None
    assert peak < 2048 * 2048


@pytest.mark.parametrize("workload", [Workload.FORWARD, BOTH])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("M", "dtype"), [(32, "float32"), (16, "float32"), (48, "float32"), (32, "float64")])
def test_the_predicted_peak_is_what_torch_allocates(
    M: int, dtype: str, causal: bool, workload: Workload, inputs_of: Any, gradient_of: Any, evaluate: Any
) -> None:
    # many heads: the scratch of the kernels, which the formula leaves out, does not grow with them
    method = build(NAME, Problem(B=64, H=4, N=128, D=32, M=M, causal=causal, dtype=dtype))
    inputs, g = inputs_of(method), gradient_of(method)

    def call() -> object:
        if workload is BOTH:
            return evaluate(method, "forward", inputs, g)
        with torch.no_grad():
            return method(*inputs)

    call()
    predicted = type(method).cost(method.problem, {}, workload).peak_bytes
    assert torch_profiler_peak(call).bytes == pytest.approx(predicted, rel=0.1)


@pytest.mark.parametrize("causal", [False, True])
def test_its_work_is_that_of_softmax_attention_without_the_own_token(causal: bool) -> None:
    problem = Problem(B=2, H=4, N=100, D=64, causal=causal)
    cost, trained = (load(NAME).cost(problem, {}, workload) for workload in (Workload.FORWARD, BOTH))
    pairs = 100 * 99 / 2 if causal else 100 * 99
    assert cost.exact_flops == 2 * 4 * pairs * 2 * 128
    assert cost.executed_flops == (1 if causal else 100 / 99) * cost.exact_flops
    assert (trained.exact_flops, trained.executed_flops) == (3 * cost.exact_flops, 3.5 * cost.executed_flops)
    assert (cost.traffic_bytes, trained.traffic_bytes) == (3 * 2 * 4 * 100 * 64 * 4, 8 * 2 * 4 * 100 * 64 * 4)


def test_another_temperature_is_refused_by_name() -> None:
    problem = Problem(N=64)
    for refused in (
        lambda: build(NAME, problem, temperature="hot"),
        lambda: load(NAME).cost(problem, {"temperature": 1}, BOTH),
    ):
        with pytest.raises(ValueError, match=r"temperature=.*must be"):
            refused()
    with pytest.raises(TypeError, match="colour"):
        load(NAME).cost(problem, {"colour": 3}, BOTH)


def test_two_tensors_are_refused_even_if_equal(inputs_of: Any) -> None:
    method = build(NAME, Problem(B=1, H=2, N=16, D=8))
    qk, _, v = inputs_of(method)
    for call in (method, method.reference, method.exact):
        with pytest.raises(ValueError, match="one tensor"):
            call(qk, qk.clone(), v)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("N", [64, 257, 2048])
def test_a_gpu_computes_the_same_without_a_tensor_of_pairs(N: int, causal: bool, dtype: str, inputs_of: Any) -> None:
    method = build(NAME, Problem(B=1, H=2, N=N, D=64, causal=causal, dtype=dtype))
    qk, v = (x.detach().cuda() for x in inputs_of(method)[1:])
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    o = method(qk, qk, v)
    peak = torch.cuda.max_memory_allocated() - before
    wide = qk.double()
    tolerance = 1e-4 if dtype == "float32" else 2e-2
    torch.testing.assert_close(o.double(), method.reference(wide, wide, v.double()), rtol=tolerance, atol=tolerance)
    assert N < 2048 or peak < 2 * N * N * qk.element_size() / 2
