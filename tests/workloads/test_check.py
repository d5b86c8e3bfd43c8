"""The correctness gate: what is right passes, and each single wrong is `incorrect`, with the error in words."""

from typing import Any

import pytest

from attnbench import registry
from attnbench.schema.cell import Batch, Cell, Workload
from attnbench.schema.errand import Job, Pass
from attnbench.schema.noun import Scalar
from attnbench.schema.outcome import Failed, Outcome, Status
from attnbench.schema.problem import DType, Problem
from attnbench.workloads.check import check, check_cells
from tests.workloads.conftest import measured

CAUSAL: dict[str, Any] = {"causal": True}
DECODE: dict[str, Any] = {"workload": Workload.DECODE, **CAUSAL}
FORWARD: dict[str, Any] = {"workload": Workload.FORWARD}
CAUSALITY = "causality (earlier outputs, when the future changes)"


def checked(name: str, *, workload: Workload = Workload.FORWARD_BACKWARD, **fields: Any) -> Outcome:
    problem = Problem(**{"H": 2, "N": 64, "D": 8, "dtype": DType.FLOAT32, **fields})
    return check(Job(cell=Cell(method=f"gate_cases:{name}", problem=problem, workload=workload), phase=Pass.CHECK, seed=3))


def reason(name: str, **fields: Any) -> str:
    outcome = checked(name, **fields)
    assert isinstance(outcome, Failed), outcome
    assert outcome.status is Status.INCORRECT
    return outcome.reason


RIGHT = [
    *((name, asked) for name in ("Right", "SharedQK", "Points") for asked in ({}, CAUSAL, DECODE)),
    *(("Right", {"M": 16, "H": 4, "kv_heads": 2, **asked}) for asked in (CAUSAL, DECODE)),
    *(("Projects", asked) for asked in ({}, CAUSAL)),
]


@pytest.mark.parametrize("dtype", list(DType))
@pytest.mark.parametrize(("name", "asked"), RIGHT)
def test_what_is_right_passes_in_every_dtype(name: str, asked: dict[str, Any], dtype: DType) -> None:
    facts = measured(checked(name, dtype=dtype, **asked)).facts
    assert float(facts["error"] or 0) <= float(facts["tolerance"] or 0)


@pytest.mark.parametrize("dtype", [DType.FLOAT64, DType.FLOAT32])
def test_wrong_values_are_incorrect(dtype: DType) -> None:
    said = reason("WrongValues", dtype=dtype, **FORWARD)
    assert said.startswith("output off by 0.0")
    assert "is allowed, at N=64" in said


def test_one_nan_is_too_many_and_no_reference_that_overflows_or_is_zero_excuses_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for dtype in DType:
        assert "off by inf" in reason("OneNaN", dtype=dtype)
    half: dict[str, Any] = {"dtype": DType.FLOAT16, **FORWARD}
    assert "off by inf" in reason("NaNLikeItsReference", **half)
    assert measured(checked("HoldsWhatItsReferenceCannot", **half)).facts["worst"] != ""
    monkeypatch.setattr("gate_cases.HoldsWhatItsReferenceCannot.factor", 1.02)
    assert reason("HoldsWhatItsReferenceCannot", **half).startswith("output off by 0.0")
    assert reason("SomethingForNothing", **FORWARD).startswith("output off by 1 where 0 is allowed")


@pytest.mark.parametrize(
    ("name", "asked", "said"),
    [
        ("WrongShape", {}, "forward gave torch.float32 [1, 2, 64, 7] where torch.float32 [1, 2, 64, 8] is right"),
        ("WrongDtype", {}, "forward gave torch.float16 [1, 2, 64, 8] where torch.float32 [1, 2, 64, 8] is right"),
        ("NoTensor", {}, "forward gave tuple where torch.float32 [1, 2, 64, 8] is right"),
        ("NarrowSteps", DECODE, "step gave torch.float32 [1, 2, 1, 7] where torch.float32 [1, 2, 1, 8] is right"),
        ("ShortPrompts", DECODE, "prefill gave torch.float32 [1, 2, 31, 8] where torch.float32 [1, 2, 32, 8] is right"),
    ],
)
def test_a_wrong_shape_is_incorrect_and_names_both(name: str, asked: dict[str, Any], said: str) -> None:
    assert reason(name, **asked) == said


@pytest.mark.parametrize(
    ("name", "causal", "first", "last"),
    [
        ("WrongGradient", False, "gradient of k", "right: output, gradient of q, gradient of v"),
        ("AllGradientsWrong", False, "gradient of q", "also off: gradient of k, gradient of v; right: output"),
        ("ProjectsWithoutLearning", False, "gradient of scale", ""),
        ("WithoutItsMask", True, "output", f"also off: gradient of q, gradient of k, gradient of v, {CAUSALITY}"),
        ("LeaksTheFuture", True, CAUSALITY, "right: output, gradient of q, gradient of k, gradient of v"),
    ],
)
def test_the_output_is_said_before_gradients_then_causality_and_what_is_right(
    name: str, causal: bool, first: str, last: str
) -> None:
    said = reason(name, causal=causal)
    assert said.startswith(f"{first} off by")
    assert said.endswith(last)
    if first.startswith("gradient"):
        measured(checked(name, **FORWARD))


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


def test_an_output_that_is_like_nothing_is_only_off() -> None:
    said = reason("NoiseOnTop", **FORWARD)
    assert said.startswith("output off by")
    assert ";" not in said


@pytest.mark.parametrize("causal", [False, True])
def test_padding_is_hidden_from_every_query_or_the_method_is_incorrect(causal: bool) -> None:
    measured(checked("Hides", padding=0.5, causal=causal))
    measured(checked("SeesThePadding", causal=causal))
    said = reason("SeesThePadding", padding=0.5, causal=causal)
    assert "off by" in said
    # of one sample, the short sequence of the check has one padded row
    assert causal or "keys that the padding hides: its mask is missing" in said


@pytest.mark.parametrize("name", ["LeaksTheFuture", "LeaksKeys", "LeaksValuesAsWell", "ChoosesByTheFuture"])
def test_a_causal_call_that_sees_the_future_is_incorrect(name: str) -> None:
    """Later keys may be seen by a method that says so, and later values by none."""
    assert reason(name, **CAUSAL).startswith(f"{CAUSALITY} off by")
    measured(checked("LeaksKeysAndSaysSo", **CAUSAL) if name == "LeaksKeys" else checked(name))
    with pytest.raises(ValueError, match=r"Odd: causality = 'Full' is none of none, full, values_only"):
        type("Odd", (registry.load("softmax.sdpa"),), {"causality": "Full"})


def test_one_word_where_a_tuple_is_due_is_a_tuple_of_it_and_not_of_its_letters() -> None:
    own = {"requires": "einops", "devices": "cuda", "dtypes": "float32"}
    kind = type("Odd", (registry.load("softmax.sdpa"),), own)
    assert {name: getattr(kind, name) for name in own} == {name: (word,) for name, word in own.items()}


@pytest.mark.parametrize(("dtype", "first"), [(DType.BFLOAT16, "row "), (DType.FLOAT16, "output off by")])
def test_half_precision_is_no_excuse_for_fewer_digits(dtype: DType, first: str) -> None:
    assert reason("Sloppy", dtype=dtype).startswith(first)


@pytest.mark.parametrize("name", ["StandsStill", "LeaksInItsPrompt", "PointsElsewhere"])
def test_decoding_that_is_not_the_parallel_form_is_incorrect_and_the_rest_of_the_method_is_not(name: str) -> None:
    assert reason(name, **DECODE).startswith("output off by")
    measured(checked(name, **CAUSAL))
    with pytest.raises(TypeError, match="this one is or holds a dict"):
        checked("KeepsADict", **DECODE)


def test_choices_are_made_once_and_handed_to_forward_and_to_the_reference_in_its_dtype_and_in_float64(noted: list[str]) -> None:
    measured(checked("Points"))
    assert sorted(noted) == ["choose", "forward", "reference", "reference"]


def cells_of(name: str, workload: Workload, params: dict[str, Scalar] | None = None, **fields: Any) -> tuple[Cell, ...]:
    problem = Problem(**{"B": 4, "H": 8, "N": 4096, "D": 32, "causal": True, **fields})
    asked = Cell(method=name, problem=problem, params=params or {}, workload=workload, batch=Batch.LARGEST)
    return check_cells(registry.load(asked.method), asked)


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
def test_the_first_check_is_the_smallest_with_a_backward_or_token_by_token(
    name: str, workload: str, fields: dict[str, Any], checked_as: str, shape: dict[str, Any]
) -> None:
    found = cells_of(f"gate_cases:{name}", Workload(workload), **fields)[0]
    assert found.problem == Problem(B=1, H=2, D=32, causal=True, **shape)
    assert (found.workload, found.batch) == (checked_as, Batch.FIXED)


def test_where_no_small_cell_is_allowed_there_is_none() -> None:
    assert cells_of("gate_cases:Particular", Workload.FORWARD, D=128) == ()
    assert cells_of("gate_cases:Hides", Workload.DECODE) == ()


@pytest.mark.parametrize(
    ("name", "params", "span", "N"),
    [
        ("gate_cases:Right", {}, 1, 321),
        ("linear.chunked", {"chunk": 1024}, 1024, 2561),
        ("sparse.window", {"window": 700}, 700, 1751),
        ("sparse.longformer", {"window": 8, "globals": 700}, 700, 1751),
    ],
)
def test_the_second_check_is_longer_than_two_parts_and_no_multiple_of_one(
    name: str, params: dict[str, Scalar], span: int, N: int
) -> None:
    *_, found = cells_of(name, Workload.FORWARD, params)
    assert registry.load(name).span(found.problem, params) == span
    assert (found.problem.N, found.problem.B, found.problem.H, found.workload) == (N, 2, 3, Workload.FORWARD_BACKWARD)


def test_the_second_check_has_whole_blocks_where_a_length_has_to_and_shared_heads_where_they_are() -> None:
    *_, whole = cells_of("lsh.fast_transformers", Workload.FORWARD)
    assert whole.problem.N == 512
    assert not registry.load(whole.method).refusal(whole)
    *_, shared = cells_of("gate_cases:Right", Workload.FORWARD, kv_heads=2)
    assert (shared.problem.H, shared.problem.kv_heads) == (3, 1)
    assert cells_of("landmark.pyramid", Workload.FORWARD, {"bins": "1,700"}, causal=False)[1].problem.N == 1751


@pytest.mark.parametrize("workload", [Workload.FORWARD_BACKWARD, Workload.DECODE])
def test_what_is_too_long_for_a_dense_reference_is_checked_by_rows(workload: Workload) -> None:
    *_, cell = cells_of("linear.chunked", workload, {"chunk": 1024})
    facts = measured(check(Job(cell=cell, phase=Pass.CHECK, seed=3))).facts
    assert set(facts) == {"worst", "error", "tolerance", "flops"}


def test_a_check_counts_the_products_that_torch_sees() -> None:
    assert measured(checked("Right", **FORWARD)).facts["flops"] == 2 * (2 * 2 * 64 * 64 * 8)
    # of which some are in place, in the forward
    *_, cell = cells_of("gated.lightning", Workload.FORWARD)
    cost = registry.load(cell.method).cost(cell.problem, {}, Workload.FORWARD)
    assert cost is not None
    assert measured(check(Job(cell=cell, phase=Pass.CHECK, seed=3))).facts["flops"] == pytest.approx(cost.executed_flops)


@pytest.mark.parametrize(("N", "told"), [(640, "B=3, H=4, N=640"), (1001, None)])
def test_a_method_that_tunes_itself_is_first_called_at_the_timed_shape_and_checked_with_as_many_samples_and_heads(
    N: int, told: str | None, noted: list[tuple[int, ...]]
) -> None:
    timed = Cell(method="gate_cases:Tunes", problem=Problem(B=3, H=4, N=N, D=8))
    small = timed.reshaped(B=1, H=2, kv_heads=2, N=64).model_copy(update={"workload": Workload.FORWARD_BACKWARD})
    facts = measured(check(Job(cell=small, phase=Pass.CHECK, tuned_at=timed))).facts
    # with the backward of the check, whatever the cell's workload is
    assert noted[:2] == [(3, 4, N, True), (1, 2, 64, True)]
    assert (facts.get("tuned_at"), facts.get("tuning")) == (told, None if told else "failed: no room")
    assert told is None or float(facts["tuning_seconds"] or 0) > 0
    alike = {(c.problem.B, c.problem.H, c.problem.kv_heads) for c in cells_of("gate_cases:Tunes", Workload.FORWARD, kv_heads=4)}
    assert alike == {(4, 8, 4)}
