"""The formulas of softmax attention agree with each other, and the predicted peaks with what torch allocates."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from attnbench import Problem, build
from attnbench.api import Workload, draw, io_bytes, nominal_flops, padding_mask
from attnbench.measure.profiler_memory import torch_profiler_peak
from attnbench.registry import load
from attnbench.schema.cost import Cost
from tests.impls.conftest import few

FORWARD, BOTH, STEP, TOTAL = Workload.FORWARD, Workload.FORWARD_BACKWARD, Workload.DECODE, Workload.DECODE_TOTAL
DECODING = ["softmax.naive", "softmax.sdpa", "softmax.sdpa_math", "softmax.sdpa_flash", "softmax.recompute"]
ALL = [*DECODING, "softmax.sdpa_efficient", "softmax.sdpa_cudnn", "softmax.flex", "softmax.flash_attn", "softmax.xformers"]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """The fused kernels' scratch, which no formula has, grows with the threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def call_of(method: Any, workload: Workload) -> Callable[[], object]:
    """One call of the workload, as it is measured."""
    p, generator = method.problem, torch.Generator().manual_seed(0)
    inputs = type(method).inputs(p, generator)
    token = tuple(x[:, :, :1].clone() for x in inputs)
    if workload is STEP:
        _, state = method.prefill(*(x[:, :, : p.N - 1] for x in inputs), capacity=p.N)
        return lambda: method.step(*token, state=state)
    if workload is TOTAL:
        return lambda: from_nothing(method, token)
    mask = padding_mask(p, "cpu")
    keywords = {} if mask is None else {"key_mask": mask}
    if workload is FORWARD:
        return lambda: method(*inputs, **keywords)
    g = draw(p, p.H, p.M, generator, method.layout)
    for x in inputs:
        x.requires_grad_()
    return lambda: torch.autograd.grad(method(*inputs, **keywords), inputs, g)


def from_nothing(method: Any, token: tuple[torch.Tensor, ...]) -> object:
    """As many steps as the problem has tokens."""
    o, state = method.prefill(*(x[:, :, :0] for x in token), capacity=method.problem.N)
    for _ in range(method.problem.N):
        o, state = method.step(*token, state=state)
    return o


def within_a_tenth(name: str, workload: Workload, **shape: Any) -> None:
    method = build(name, Problem(**{"B": 16, "H": 4, "N": 128, "D": 64, **shape}))
    with torch.set_grad_enabled(workload is BOTH):
        call = call_of(method, workload)
        call()
        peak = torch_profiler_peak(call).bytes
    assert peak == pytest.approx(type(method).cost(method.problem, {}, workload).peak_bytes, rel=0.1)


SHAPES: list[dict[str, Any]] = [
    {"causal": True, "kv_heads": 2, "dtype": "float64"},
    {"padding": 0.5, "kv_heads": 2},
    {},
    {"causal": True, "padding": 0.5},
]


@pytest.mark.parametrize("workload", [FORWARD, BOTH])
@pytest.mark.parametrize("shape", few(SHAPES, 2), ids=str)
@pytest.mark.parametrize("name", DECODING)
def test_the_predicted_peak_of_a_sequence_is_what_torch_allocates(name: str, shape: dict[str, Any], workload: Workload) -> None:
    within_a_tenth(name, workload, **shape)


@pytest.mark.parametrize("workload", [STEP, TOTAL])
@pytest.mark.parametrize("shape", few([{"kv_heads": 2, "dtype": "float64"}, {}], 1), ids=str)
@pytest.mark.parametrize("name", DECODING)
def test_the_predicted_peak_of_decoding_is_what_torch_allocates(name: str, shape: dict[str, Any], workload: Workload) -> None:
    within_a_tenth(name, workload, causal=True, **shape)


@pytest.mark.parametrize("workload", [FORWARD, BOTH, STEP, TOTAL])
@pytest.mark.parametrize("name", few(["softmax.naive", "softmax.sdpa", "softmax.sdpa_math", "softmax.recompute"], 2))
def test_the_peak_is_right_for_values_of_another_width(name: str, workload: Workload) -> None:
    within_a_tenth(name, workload, causal=True, M=32, kv_heads=2)


@pytest.mark.parametrize("workload", [FORWARD, BOTH, STEP, TOTAL])
def test_the_peak_of_the_materialised_path_is_right_in_bfloat16(workload: Workload) -> None:
    within_a_tenth("softmax.sdpa_math", workload, causal=True, dtype="bfloat16")


def cost(name: str, workload: Workload, **shape: Any) -> Cost:
    return load(name).cost(Problem(**{"B": 2, "H": 4, "N": 64, "D": 8, "causal": True, **shape}), {}, workload)


@pytest.mark.parametrize("shape", [{}, {"causal": False}, {"M": 16, "kv_heads": 2}, {"padding": 0.5}], ids=str)
@pytest.mark.parametrize("workload", [FORWARD, BOTH, STEP, TOTAL])
@pytest.mark.parametrize("name", ALL)
def test_every_variant_counts_nominally_alike_and_executes_what_is_needed(
    name: str, workload: Workload, shape: dict[str, Any]
) -> None:
    problem = Problem(**{"B": 2, "H": 4, "N": 64, "D": 8, "causal": True, **shape})
    found = cost(name, workload, **shape)
    assert found.nominal_flops == nominal_flops(problem, workload)
    assert found.executed_flops >= found.exact_flops
    assert found.traffic_bytes >= io_bytes(problem, workload)


@pytest.mark.parametrize("name", ["softmax.naive", "softmax.sdpa", "softmax.sdpa_math", "softmax.sdpa_flash"])
def test_a_whole_sequence_costs_the_sum_of_its_steps(name: str) -> None:
    steps = [cost(name, STEP, N=n) for n in range(1, 65)]
    total = cost(name, TOTAL, N=64)
    for field in ("nominal_flops", "exact_flops", "executed_flops", "traffic_bytes"):
        assert getattr(total, field) == sum(getattr(step, field) for step in steps), field


def test_without_a_cache_a_step_costs_the_square_and_a_sequence_the_cube() -> None:
    steps = [cost("softmax.recompute", STEP, N=n) for n in range(1, 65)]
    total = cost("softmax.recompute", TOTAL, N=64)
    for field in ("nominal_flops", "exact_flops", "executed_flops", "traffic_bytes"):
        assert getattr(total, field) == sum(getattr(step, field) for step in steps), field
    assert steps[-1].executed_flops == cost("softmax.sdpa", FORWARD, N=64).executed_flops
    assert cost("softmax.recompute", TOTAL, N=4096).executed_flops == pytest.approx(
        8 * cost("softmax.recompute", TOTAL, N=2048).executed_flops, rel=1e-2
    )


def test_a_step_reads_the_cache_once() -> None:
    # q, k, v and o of the one token, 63 tokens of cache read, one written; H = 4, D = M = 8, K = 2, float32
    token = 2 * 4 * (4 * 8 + 2 * 16 + 4 * 8)
    assert cost("softmax.naive", STEP, kv_heads=2).traffic_bytes == token + 2 * 4 * 2 * 64 * 16


@pytest.mark.parametrize("causal", [False, True])
def test_padding_lessens_what_is_needed_but_not_what_is_nominal(causal: bool) -> None:
    problem = Problem(B=3, H=2, N=10, D=4, M=3, padding=0.5, causal=causal)
    pairs = sum(min(i + 1, n) if causal else n for n in problem.lengths for i in range(10))
    found = load("softmax.naive").cost(problem, {}, FORWARD)
    assert found.exact_flops == 2 * 2 * pairs * 7
    assert found.nominal_flops == nominal_flops(problem, FORWARD)


def test_a_mask_beside_a_causal_call_lets_the_fused_kernel_skip_nothing() -> None:
    square = 2 * 2 * 4 * 64 * 64 * 16
    assert cost("softmax.sdpa_flash", FORWARD, padding=0.5).executed_flops == square
    assert cost("softmax.sdpa_flash", BOTH, padding=0.5).executed_flops == 3.5 * square
    assert cost("softmax.sdpa_flash", FORWARD).executed_flops < 0.51 * square


@pytest.mark.parametrize("name", ALL)
def test_an_unknown_parameter_is_a_type_error(name: str) -> None:
    with pytest.raises(TypeError, match="colour"):
        load(name).cost(Problem(N=8), {"colour": 3}, FORWARD)
