"""The LSH attention of other packages itself, against the definitions that it is said to compute."""

from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench import Problem, registry
from attnbench.api import Cell, Workload
from attnbench.measure.profiler_memory import torch_profiler_peak

pytestmark = [
    pytest.mark.peers,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::ImportWarning", "ignore::UserWarning", "ignore::FutureWarning"
    ),
]
HUGGING, FAST = "lsh.transformers", "lsh.fast_transformers"
CASES: list[tuple[str, dict[str, Any]]] = [
    *(
        (HUGGING, {"rounds": R, "bucket_size": m, "look_forward": look})
        for R in (1, 2, 4)
        for m in (8, 16)
        for look in (False, True)
    ),
    *((FAST, {"rounds": R, "bucket_size": m, "masked": masked}) for R in (1, 4) for m in (8, 32) for masked in (False, True)),
    (FAST, {"bits": 3, "bucket_size": 8}),
]


def difference(method: Any, inputs: Any, g: Tensor, evaluate: Any) -> list[float]:
    """max|o - r| of the output and each gradient with the same choices, r by the reference in float64."""
    choices = method.choose(*inputs)
    wide = {id(x): x.detach().double().requires_grad_() for x in inputs}
    got = evaluate(method, "forward", inputs, g, choices)
    want = evaluate(method, "reference", [wide[id(x)] for x in inputs], g.double(), choices)
    return [float((a.double() - b).abs().max()) for a, b in zip(got, want, strict=True)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("N", [32, 256])
@pytest.mark.parametrize(("name", "params"), CASES, ids=str)
def test_values_and_gradients_are_those_of_the_definition(
    name: str, params: dict[str, Any], N: int, causal: bool, inputs_of: Any, gradient_of: Any, evaluate: Any
) -> None:
    method: Any = registry.build(name, Problem(B=2, H=3, N=N, D=8, dtype="float64", causal=causal), **params)
    assert max(difference(method, inputs_of(method), gradient_of(method), evaluate)) < 1e-10


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("name", "params"), [(HUGGING, {"rounds": 1}), (FAST, {}), (FAST, {"masked": True})], ids=str)
def test_float32_costs_a_rounding(
    name: str, params: dict[str, Any], causal: bool, inputs_of: Any, gradient_of: Any, evaluate: Any
) -> None:
    method: Any = registry.build(name, Problem(B=2, H=3, N=256, D=64, causal=causal), bucket_size=16, **params)
    assert max(difference(method, inputs_of(method), gradient_of(method), evaluate)) < 5e-5


def test_a_token_that_sees_only_itself_is_off_in_several_rounds_of_hugging_face(inputs_of: Any) -> None:
    method: Any = registry.build(HUGGING, Problem(B=1, H=4, N=256, D=8, causal=True), bucket_size=16)
    qk, _, v = (x.detach() for x in inputs_of(method))
    off = ((method(qk, qk, v) - v)[:, :, 0].abs() / v[:, :, 0].abs()).max()
    # -100000 is spaced by 0.0078 in float32, half of which is what a weight of a quarter may be off
    assert 1e-4 < float(off) < 4e-3


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_hugging_face_in_half_precision_is_off_where_it_is_refused(dtype: str, inputs_of: Any) -> None:
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


@pytest.mark.parametrize("name", [HUGGING, FAST])
def test_without_choices_it_hashes_anew_and_leaves_its_inputs(name: str, inputs_of: Any) -> None:
    method: Any = registry.build(name, Problem(B=1, H=2, N=128, D=8), bucket_size=16)
    inputs = inputs_of(method)
    before = [x.detach().clone() for x in inputs]
    assert not torch.equal(method(*inputs), method(*inputs))
    assert all(torch.equal(x, y) for x, y in zip(inputs, before, strict=True))


@pytest.mark.parametrize("name", [HUGGING, FAST])
def test_a_causal_call_hides_later_values(name: str, inputs_of: Any) -> None:
    method: Any = registry.build(name, Problem(B=1, H=2, N=128, D=8, causal=True), bucket_size=16)
    qk, _, v = (x.detach() for x in inputs_of(method))
    choices = method.choose(qk, qk, v)
    o = method(qk, qk, v, choices=choices)
    v[:, :, 100:] = 3 - v[:, :, 100:]
    assert torch.equal(method(qk, qk, v, choices=choices)[:, :, :100], o[:, :, :100])


@pytest.mark.parametrize("workload", [Workload.FORWARD, Workload.FORWARD_BACKWARD])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("name", "params", "shape"),
    [
        (HUGGING, {}, {}),
        (HUGGING, {"rounds": 1, "bucket_size": 16}, {"D": 32}),
        (HUGGING, {"look_forward": True}, {}),
        (HUGGING, {"bucket_size": 32}, {"D": 128, "B": 2, "H": 2, "dtype": "float64"}),
        (HUGGING, {"bucket_size": 4}, {"N": 4096, "D": 16, "H": 1}),
        (FAST, {}, {}),
        (FAST, {"rounds": 1}, {"dtype": "float64"}),
        (FAST, {"masked": True, "bucket_size": 16}, {"B": 3, "H": 2}),
        (FAST, {"bits": 256, "bucket_size": 16}, {}),
        (FAST, {"rounds": 1, "masked": True}, {"N": 2048, "H": 2}),
    ],
    ids=str,
)
def test_the_predicted_peak_is_what_torch_allocates(
    name: str,
    params: dict[str, Any],
    shape: dict[str, Any],
    causal: bool,
    workload: Workload,
    inputs_of: Any,
    gradient_of: Any,
    evaluate: Any,
) -> None:
    method: Any = registry.build(name, Problem(**{"B": 1, "H": 4, "N": 1024, "D": 64, **shape}, causal=causal), **params)
    inputs, g = inputs_of(method), gradient_of(method)

    def call() -> object:
        if workload is Workload.FORWARD_BACKWARD:
            return evaluate(method, "forward", inputs, g)
        with torch.no_grad():
            return method(*inputs)

    call()
    predicted = type(method).cost(method.problem, params, workload).peak_bytes
    assert torch_profiler_peak(call).bytes == pytest.approx(predicted, rel=0.1)
