"""The fidelity pass: how much of the exact attention a method keeps, once it has what training would leave in it."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from attnbench import registry
from attnbench.schema.cell import Batch, Cell, Inputs, Workload
from attnbench.schema.errand import Inquiry, Job, Pass
from attnbench.schema.noun import Scalar
from attnbench.schema.outcome import COSINE, MASS_RECALL, OUTPUT_ERROR, TOP_OVERLAP, Failed, Measured, Status
from attnbench.schema.problem import DType, Problem
from attnbench.workloads.describe import describe
from attnbench.workloads.fidelity import (
    SEQUENCES,
    THE_SAME,
    TOP_KEYS,
    adapt,
    cosine,
    mass_recall,
    measure_fidelity,
    output_error,
    top_overlap,
)
from attnbench.workloads.setting import build, whole

P = Problem(H=2, N=64, D=16)


def cell(name: str, N: int = 64, causal: bool = False, **params: Scalar) -> Cell:
    p = Problem(H=2, N=N, D=8, causal=causal)
    return Cell(method=name, problem=p, workload=Workload.FIDELITY, params=params)


def measure(name: str, N: int = 64, seed: int = 0, causal: bool = False, **params: Scalar) -> dict[str, float]:
    outcome = measure_fidelity(Job(cell=cell(name, N, causal, **params), phase=Pass.FIDELITY, seed=seed))
    assert isinstance(outcome, Measured)
    assert {len(series.values) for series in outcome.samples.values()} == {1}
    return {metric: series.values[0] for metric, series in outcome.samples.items()}


@pytest.mark.parametrize("N", [1, 31, 64])
@pytest.mark.parametrize("causal", [True, False])
def test_an_exact_method_keeps_everything(N: int, causal: bool) -> None:
    found = measure("gate_cases:Right", N, causal=causal)
    assert found[MASS_RECALL] == pytest.approx(1)
    assert found[TOP_OVERLAP] == pytest.approx(1)
    assert found[COSINE] == pytest.approx(1)
    assert found[OUTPUT_ERROR] < 1e-6


def test_recall_is_the_exact_mass_on_top_keys_that_get_any_weight() -> None:
    exact = torch.tensor([[0.5, 0.3, 0.2, 0.0], [0.1, 0.2, 0.3, 0.4]])
    found = torch.tensor([[0.0, 1e-30, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0]])
    assert mass_recall(found, exact, top=2) == pytest.approx((0.3 / 0.8 + 0.4 / 0.7) / 2)
    assert mass_recall(found, exact, top=100) == pytest.approx((0.5 + 0.4) / 2)
    assert mass_recall(-torch.ones(3, 3), torch.eye(3)) == 0, "a negative weight is none"


def test_the_error_of_the_output_is_relative() -> None:
    o = torch.full((1, 1, 3, 4), 2.0)
    assert output_error(1.5 * o, o) == pytest.approx(0.5)


def test_the_overlap_of_top_keys_goes_by_the_method_s_own_weights() -> None:
    exact = torch.tensor([[0.5, 0.3, 0.2, 0.0], [0.1, 0.2, 0.3, 0.4]])
    found = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.0, 0.0, 0.1, 0.9]])
    assert top_overlap(found, exact, top=2) == pytest.approx((0 + 1) / 2)
    assert top_overlap(found, exact, top=3) == pytest.approx((2 / 3 + 2 / 3) / 2)
    assert top_overlap(exact, exact, top=3) == 1


def test_keys_without_weight_are_no_top_keys_on_either_side() -> None:
    exact = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.4, 0.3, 0.3]])
    assert top_overlap(exact, exact, top=3) == 1
    nothing = torch.zeros(3, 3)
    assert top_overlap(nothing, exact, top=3) == 0
    assert top_overlap(-exact, exact, top=3) == 0
    assert top_overlap(torch.full((3, 3), torch.nan), exact, top=3) == 0


def test_of_equal_weights_the_earlier_key_comes_first_on_both_sides() -> None:
    even = torch.full((1, 1000), 1e-3)
    assert top_overlap(2 * even, even) == 1
    later = even.clone()
    later[0, -32:] *= 2
    assert top_overlap(later, even) == 0


def test_the_cosine_is_of_each_query_and_knows_no_length() -> None:
    o = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0], [1.0, 0.0]])
    exact = torch.tensor([[3.0, 0.0], [0.0, -1.0], [1.0, 0.0], [0.0, 5.0]])
    assert cosine(o, exact) == pytest.approx((1 - 1 + 0.5**0.5 + 0) / 4)
    assert cosine(torch.zeros(4, 2), exact) == 0


def test_recall_grows_with_what_is_seen_up_to_everything() -> None:
    recalls = [measure("gate_cases:Near", reach=reach)[MASS_RECALL] for reach in (0, 8, 32, 64)]
    assert recalls == sorted(recalls)
    assert 0 < recalls[0] < 0.2
    assert recalls[-1] == pytest.approx(1)


def test_keys_beyond_the_top_ones_do_not_count_and_neither_time_nor_memory_is_recorded() -> None:
    assert TOP_KEYS == 32
    outcome = measure_fidelity(Job(cell=cell("gate_cases:Right", 16), phase=Pass.FIDELITY))
    assert isinstance(outcome, Measured)
    assert (outcome.facts["top_keys"], outcome.facts["exact"]) == (16, "Softmax attention over all keys")
    units = dict.fromkeys((OUTPUT_ERROR, COSINE, MASS_RECALL, TOP_OVERLAP), "1")
    assert {name: series.unit for name, series in outcome.samples.items()} == units
    assert not outcome.memory


def test_hashing_keeps_more_in_more_rounds_and_all_where_there_are_only_two_buckets() -> None:
    one, four = (measure("lsh.reformer_pytorch", 128, rounds=R, bucket_size=8) for R in (1, 4))
    assert one[MASS_RECALL] + 0.1 < four[MASS_RECALL] < 1
    assert four[OUTPUT_ERROR] < one[OUTPUT_ERROR]
    assert four[COSINE] > one[COSINE]
    assert four[TOP_OVERLAP] > one[TOP_OVERLAP]
    everything = measure("lsh.reformer_pytorch", 64, rounds=1, bucket_size=32)
    assert everything[MASS_RECALL] == pytest.approx(1)
    assert everything[OUTPUT_ERROR] < 1e-6


def test_each_seed_has_inputs_of_its_own() -> None:
    first, again, other = (measure("linear.full", seed=seed)[OUTPUT_ERROR] for seed in (0, 0, 1))
    assert first == again != other


def test_what_is_not_a_number_is_a_row_and_never_a_sample() -> None:
    outcome = measure_fidelity(Job(cell=cell("gate_cases:OnlyNaN"), phase=Pass.FIDELITY))
    assert isinstance(outcome, Failed)
    assert outcome.status is Status.ERROR
    assert outcome.reason.startswith("output_error is not a finite number")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"problem": Problem(B=2, N=64, padding=0.5)}, "without padding"),
        ({"batch": Batch.LARGEST}, "a batch that is stated"),
        ({"problem": Problem(N=64, dtype=DType.BFLOAT16)}, "float32 or float64"),
    ],
)
def test_what_fidelity_cannot_be_measured_of_says_why(changes: dict[str, object], words: str) -> None:
    one = cell("gate_cases:Hides")
    refused = one.model_copy(update=changes)
    timed = refused.model_copy(update={"workload": Workload.FORWARD})
    right, wrong, other = describe(Inquiry(method=one.method, cells=(one, refused, timed))).prospects
    assert words in (wrong.why_not or "")
    assert (right.why_not, other.why_not) == (None, None)


def test_a_method_is_asked_about_a_forward_and_checked_on_one() -> None:
    (asked,) = describe(Inquiry(method="gate_cases:Asked", cells=(cell("gate_cases:Asked"),))).prospects
    assert asked.why_not == "asked about forward"
    (right,) = describe(Inquiry(method="gate_cases:Right", cells=(cell("gate_cases:Right"),))).prospects
    assert right.checks
    assert right.checks[0].workload is Workload.FORWARD_BACKWARD
    assert right.cost is not None


def quantised(codes: int = 8, **fields: object) -> Cell:
    params = {"codes": codes}
    return Cell.model_validate(
        {"method": "vq.quantised", "problem": P, "workload": Workload.FIDELITY, "params": params, **fields}
    )


def adapted(one: Cell, seed: int = 3) -> Measured:
    outcome = measure_fidelity(Job(cell=one, phase=Pass.FIDELITY, seed=seed))
    assert isinstance(outcome, Measured)
    return outcome


def seen_by(one: Cell, monkeypatch: pytest.MonkeyPatch, seed: int = 3) -> tuple[str, tuple[Tensor, ...]]:
    """What adapting says of itself, and what it hands over."""
    handed: list[tuple[Tensor, ...]] = []
    monkeypatch.setattr(registry.load(one.method), "adapt", lambda _, *inputs: handed.append(inputs))
    words = adapt(build(one, seed), one, seed)
    return words, handed[0]


@pytest.mark.parametrize("kind", [Inputs.NORMAL, Inputs.PEAKED, Inputs.CLUSTERED])
def test_it_is_handed_other_sequences_of_the_same_kind(kind: Inputs, monkeypatch: pytest.MonkeyPatch) -> None:
    one = quantised(inputs=kind)
    words, others = seen_by(one, monkeypatch)
    assert words == "8 other sequences"
    for other, mine in zip(others, whole(one, 3).inputs, strict=True):
        assert other.shape == (SEQUENCES, 2, 64, 16)
        assert torch.cdist(other.transpose(0, 1).flatten(1, 2), mine[0]).min() > 0.1


@pytest.mark.parametrize(
    ("held", "words", "others"), [(3, "2 other sequences", 2), (20, "8 other sequences", 8), (1, THE_SAME, 0)]
)
def test_of_a_recording_it_is_handed_those_that_are_not_measured_while_there_are_some(
    held: int, words: str, others: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "made.safetensors"
    save_file({name: torch.randn(held, 2, 64, 16) for name in ("q", "k", "v")}, file)
    one = quantised(inputs=Inputs.RECORDED, recording=str(file))
    said, (_, keys, _) = seen_by(one, monkeypatch)
    assert said == words
    mine = whole(one, 3).inputs[1]
    same = [torch.equal(x, mine[0]) for x in keys]
    assert same == ([False] * others if others else [True])


def test_a_method_with_nothing_to_adapt_is_left_alone_and_says_nothing() -> None:
    one = Cell(method="softmax.sdpa", problem=P, workload=Workload.FIDELITY)
    assert adapt(build(one, 3), one, 3) == ""
    assert "adapted" not in adapted(one).facts
    assert adapted(quantised()).facts["adapted"] == "8 other sequences"


def test_more_codes_keep_more_of_keys_that_cluster() -> None:
    errors = [adapted(quantised(codes, inputs=Inputs.CLUSTERED)).samples[OUTPUT_ERROR].values[0] for codes in (2, 8, 32)]
    assert errors[0] > 1.2 * errors[1] > 1.2 * errors[2]


def test_what_is_adapted_is_a_matter_of_the_seed_alone() -> None:
    first, again, other = (adapted(quantised(inputs=Inputs.CLUSTERED), seed).samples[OUTPUT_ERROR].values for seed in (3, 3, 4))
    assert first == again != other
