"""The correctness gate: what is right passes, and each single wrong is `incorrect`, with the error in words."""

import importlib
from typing import Any

import pytest

from attnbench import registry
from attnbench.schema.cell import Batch, Cell, Workload
from attnbench.schema.errand import Job, Pass
from attnbench.schema.noun import Scalar
from attnbench.schema.outcome import Failed, Measured, Outcome, Status
from attnbench.schema.problem import DType, Problem
from attnbench.workloads.check import check, check_cells

DECODE: dict[str, Any] = {"workload": Workload.DECODE, "causal": True}


def checked(name: str, *, workload: Workload = Workload.FORWARD_BACKWARD, **fields: Any) -> Outcome:
    problem = Problem(**{"H": 2, "N": 64, "D": 8, "dtype": DType.FLOAT32, **fields})
    return check(Job(cell=Cell(method=f"gate_cases:{name}", problem=problem, workload=workload), phase=Pass.CHECK, seed=3))


def reason(name: str, **fields: Any) -> str:
    outcome = checked(name, **fields)
    assert isinstance(outcome, Failed), outcome
    assert outcome.status is Status.INCORRECT
    return outcome.reason


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", list(DType))
@pytest.mark.parametrize("name", ["Right", "SharedQK", "Projects"])
def test_what_is_right_passes_in_every_dtype(name: str, dtype: DType, causal: bool) -> None:
    outcome = checked(name, dtype=dtype, causal=causal)
    assert isinstance(outcome, Measured), outcome
    assert float(outcome.facts["error"] or 0) <= float(outcome.facts["tolerance"] or 0)


def test_value_width_and_shared_heads_are_the_problem_s_own() -> None:
    assert isinstance(checked("Right", M=16, H=4, kv_heads=2), Measured)


@pytest.mark.parametrize("dtype", [DType.FLOAT64, DType.FLOAT32])
def test_wrong_values_are_incorrect(dtype: DType) -> None:
    said = reason("WrongValues", dtype=dtype, workload=Workload.FORWARD)
    assert said.startswith("output off by 0.0")
    assert "is allowed, at N=64" in said


@pytest.mark.parametrize("dtype", list(DType))
def test_one_nan_is_incorrect(dtype: DType) -> None:
    assert "off by inf" in reason("OneNaN", dtype=dtype)


def test_a_reference_that_overflows_too_does_not_excuse_what_is_not_finite() -> None:
    assert "off by inf" in reason("NaNLikeItsReference", dtype=DType.FLOAT16, workload=Workload.FORWARD)


def test_where_zero_is_right_nothing_else_is() -> None:
    assert reason("SomethingForNothing", workload=Workload.FORWARD).startswith("output off by 1 where 0 is allowed")


@pytest.mark.parametrize(
    ("name", "asked", "said"),
    [
        ("WrongShape", {}, "forward gave torch.float32 [1, 2, 64, 7] where torch.float32 [1, 2, 64, 8] is right"),
        ("WrongDtype", {}, "forward gave torch.float16 [1, 2, 64, 8] where torch.float32 [1, 2, 64, 8] is right"),
        ("NoTensor", {}, "forward gave tuple where torch.float32 [1, 2, 64, 8] is right"),
        ("NarrowSteps", DECODE, "step gave torch.float32 [1, 2, 1, 7] where torch.float32 [1, 2, 1, 8] is right"),
        ("HalfSteps", DECODE, "step gave torch.float16 [1, 2, 1, 8] where torch.float32 [1, 2, 1, 8] is right"),
        ("ShortPrompts", DECODE, "prefill gave torch.float32 [1, 2, 31, 8] where torch.float32 [1, 2, 32, 8] is right"),
    ],
)
def test_a_wrong_shape_is_incorrect_and_names_both(name: str, asked: dict[str, Any], said: str) -> None:
    assert reason(name, **asked) == said


def test_a_wrong_gradient_behind_right_values_is_incorrect() -> None:
    said = reason("WrongGradient")
    assert said.startswith("gradient of k off by")
    assert said.endswith("right: output, gradient of q, gradient of v")
    assert isinstance(checked("WrongGradient", workload=Workload.FORWARD), Measured)


def test_the_output_is_said_before_gradients_and_these_before_causality() -> None:
    said = reason("WithoutItsMask", causal=True)
    assert said.startswith("output off by")
    causality = "causality (earlier outputs, when the future changes)"
    assert said.endswith(f"also off: gradient of q, gradient of k, gradient of v, {causality}")
    said = reason("AllGradientsWrong")
    assert said.startswith("gradient of q off by")
    assert said.endswith("also off: gradient of k, gradient of v; right: output")
    assert reason("LeaksTheFuture", causal=True).endswith("right: output, gradient of q, gradient of k, gradient of v")


@pytest.mark.parametrize("workload", [Workload.FORWARD, Workload.FORWARD_BACKWARD])
@pytest.mark.parametrize(
    ("name", "causal", "words"),
    [
        ("TwiceAsMuch", True, "every number is 2 times what is right"),
        ("Unscaled", True, "scores 2.828 times as large: they are not multiplied by 1/sqrt(D)"),
        ("ScaledTwice", False, "scores 0.3536 times as large: they are multiplied by 1/sqrt(D) once too often"),
        ("ToThePowerOfTwo", True, "scores 0.6931 times as large: exp2 is taken of them without log2(e)"),
        ("WithoutItsMask", True, "seeing later keys: the causal mask is missing"),
        ("AlwaysMasked", False, "a causal mask, which this problem has not"),
        ("OneNaN", False, "16 of its 1,024 numbers are not finite, the first at [0, 0, 5, 0] of [B, H, N, M]"),
    ],
)
def test_what_a_wrong_output_is_like_is_said(name: str, causal: bool, words: str, workload: Workload) -> None:
    said = reason(name, causal=causal, workload=workload)
    assert said.startswith("output off by")
    assert words in said


def test_a_padding_mask_that_is_missing_is_told_from_other_faults() -> None:
    # of one sample, the short sequence of the check has one padded row
    assert "keys that the padding hides: its mask is missing" in reason("SeesThePadding", padding=0.5)


def test_an_output_that_is_like_nothing_is_only_off() -> None:
    said = reason("NoiseOnTop", workload=Workload.FORWARD)
    assert said.startswith("output off by")
    assert ";" not in said


def test_a_wrong_gradient_of_a_parameter_is_incorrect() -> None:
    assert reason("ProjectsWithoutLearning").startswith("gradient of scale off by")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("LeaksTheFuture", "causality (earlier outputs, when the future changes) off by"),
        ("LeaksKeys", "causality (earlier"),
        # later keys may be seen by a method that says so, and later values by none
        ("LeaksValuesAsWell", "causality (earlier"),
    ],
)
def test_a_causal_call_that_sees_the_future_is_incorrect(name: str, said: str) -> None:
    assert reason(name, causal=True).startswith(said)
    assert isinstance(checked(name, causal=False), Measured) or name == "LeaksKeys"


def test_later_keys_may_be_seen_by_a_method_that_says_so() -> None:
    assert isinstance(checked("LeaksKeysAndSaysSo", causal=True), Measured)


@pytest.mark.parametrize("dtype", [DType.BFLOAT16, DType.FLOAT16])
def test_half_precision_passes_a_faithful_implementation_and_fails_a_sloppy_one(dtype: DType) -> None:
    assert isinstance(checked("Wide", dtype=dtype), Measured)
    assert "off by" in reason("Sloppy", dtype=dtype)


@pytest.mark.parametrize("dtype", list(DType))
def test_right_decoding_passes_in_every_dtype(dtype: DType) -> None:
    for name, shape in {"Right": {"kv_heads": 1, "M": 4}, "SharedQK": {}, "Points": {}}.items():
        outcome = checked(name, dtype=dtype, **{**shape, **DECODE})
        assert isinstance(outcome, Measured), outcome


@pytest.mark.parametrize("name", ["ForgetsTheFirst", "StandsStill", "LeaksInItsPrompt", "PointsElsewhere"])
def test_decoding_that_is_not_the_parallel_form_is_incorrect_and_the_rest_of_the_method_is_not(name: str) -> None:
    assert reason(name, **DECODE).startswith("output off by")
    assert isinstance(checked(name, causal=True), Measured)


@pytest.mark.parametrize("causal", [False, True])
def test_padding_is_hidden_from_every_query_or_the_method_is_incorrect(causal: bool) -> None:
    assert isinstance(checked("Hides", padding=0.5, causal=causal), Measured)
    assert "off by" in reason("SeesThePadding", padding=0.5, causal=causal)
    assert isinstance(checked("SeesThePadding", causal=causal), Measured)


def test_choices_are_made_once_and_handed_to_both() -> None:
    outcome = checked("Chooses")
    assert isinstance(outcome, Measured), outcome
    calls = importlib.import_module("gate_cases").Chooses.chosen
    assert calls.count("choose") == 1
    # the reference in the dtype and in float64
    assert (calls.count("forward"), calls.count("reference")) == (1, 2)


def test_whatever_the_method_raises_is_raised() -> None:
    with pytest.raises(RuntimeError, match="no kernel for this"):
        checked("Stumbles")
    with pytest.raises(RuntimeError, match="no kernel for one token"):
        checked("StumblesInAStep", **DECODE)


def small(name: str, workload: Workload = Workload.FORWARD, **fields: object) -> Cell | None:
    problem = Problem(**{"B": 4, "H": 8, "N": 4096, "D": 32, **fields})
    asked = Cell(method=f"gate_cases:{name}", problem=problem, workload=workload, batch=Batch.LARGEST)
    return next(iter(check_cells(registry.load(asked.method), asked)), None)


@pytest.mark.parametrize(
    ("name", "workload", "fields", "checked_as", "shape"),
    [
        ("Right", "forward", {"dtype": DType.FLOAT16}, "forward_backward", {"N": 64, "dtype": DType.FLOAT16}),
        ("Right", "decode", {}, "decode", {"N": 64}),
        ("Right", "decode_total", {}, "decode", {"N": 64}),
        ("Hides", "forward", {"padding": 0.25}, "forward_backward", {"N": 64, "padding": 0.25}),
        # the smallest that is allowed, even without its backward
        ("Particular", "forward", {}, "forward", {"N": 256}),
        # heads stay shared
        ("Right", "forward", {"kv_heads": 2}, "forward_backward", {"N": 64, "kv_heads": 1}),
    ],
)
def test_the_cell_of_the_check_is_the_smallest_with_a_backward_or_token_by_token(
    name: str, workload: str, fields: dict[str, Any], checked_as: str, shape: dict[str, Any]
) -> None:
    found = small(name, Workload(workload), causal=True, **fields)
    assert found is not None
    assert found.problem == Problem(B=1, H=2, D=32, causal=True, **shape)
    assert (found.workload, found.batch) == (checked_as, Batch.FIXED)


def test_where_no_small_cell_is_allowed_there_is_none() -> None:
    assert small("Particular", D=128) is None
    assert small("OnlyAtOnce", Workload.DECODE, causal=True) is None


def long(name: str, workload: Workload = Workload.FORWARD, params: dict[str, Scalar] | None = None, **fields: Any) -> Cell:
    problem = Problem(**{"B": 4, "H": 8, "N": 4096, "D": 32, "causal": True, **fields})
    asked = Cell(method=name, problem=problem, params=params or {}, workload=workload)
    *_, found = check_cells(registry.load(name), asked)
    return found


@pytest.mark.parametrize(
    ("name", "params", "span", "N"),
    [
        ("gate_cases:Right", {}, 1, 321),
        ("linear.chunked", {"chunk": 64}, 64, 321),
        ("linear.chunked", {"chunk": 1024}, 1024, 2561),
        ("sparse.window", {"window": 700}, 700, 1751),
        ("context.transformer_xl", {"segment": 512}, 512, 1281),
    ],
)
def test_the_second_check_is_longer_than_two_of_the_longest_parts_and_no_multiple_of_one(
    name: str, params: dict[str, Scalar], span: int, N: int
) -> None:
    found = long(name, params=params)
    assert registry.load(name).span(found.problem, params) == span
    assert (found.problem.N, found.problem.B, found.problem.H) == (N, 2, 3)
    assert 2 * span < found.problem.N
    assert found.workload is Workload.FORWARD_BACKWARD


def test_where_a_length_has_to_be_whole_blocks_the_second_check_has_a_few_of_them() -> None:
    found = long("lsh.fast_transformers")
    assert found.problem.N == 512
    assert not registry.load(found.method).refusal(found)


def test_heads_that_share_keys_share_them_in_the_second_check() -> None:
    found = long("gate_cases:Right", kv_heads=2)
    assert (found.problem.H, found.problem.kv_heads) == (3, 1)


@pytest.mark.parametrize("workload", [Workload.FORWARD_BACKWARD, Workload.DECODE])
def test_what_is_too_long_for_a_dense_reference_is_checked_by_rows(workload: Workload) -> None:
    cell = long("linear.chunked", workload, {"chunk": 1024})
    outcome = check(Job(cell=cell, phase=Pass.CHECK, seed=3))
    assert isinstance(outcome, Measured)
    assert set(outcome.facts) == {"worst", "error", "tolerance", "flops"}


def test_a_check_counts_the_products_that_torch_sees() -> None:
    outcome = checked("Right", N=64, D=8, workload=Workload.FORWARD)
    assert isinstance(outcome, Measured)
    assert outcome.facts["flops"] == 2 * (2 * 2 * 64 * 64 * 8)


@pytest.mark.parametrize(("N", "told"), [(640, "B=3, H=4, N=640"), (1001, None)])
def test_a_method_that_tunes_itself_is_called_at_the_timed_shape_before_it_is_checked(N: int, told: str | None) -> None:
    shapes = registry.load("gate_cases:Tunes").__dict__["shapes"]
    shapes.clear()
    timed = Cell(method="gate_cases:Tunes", problem=Problem(B=3, H=4, N=N, D=8))
    small = timed.reshaped(B=1, H=2, kv_heads=2, N=64).model_copy(update={"workload": Workload.FORWARD_BACKWARD})
    outcome = check(Job(cell=small, phase=Pass.CHECK, tuned_at=timed))
    # with the backward of the check, whatever the cell's workload is
    assert shapes[:2] == [(3, 4, N, 1), (1, 2, 64, 1)]
    assert isinstance(outcome, Measured)
    if told is None:
        assert outcome.facts["tuning"] == "failed: no room"
    else:
        assert outcome.facts["tuned_at"] == told
        assert float(outcome.facts["tuning_seconds"] or 0) > 0
