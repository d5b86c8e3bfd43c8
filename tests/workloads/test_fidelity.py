"""What each query gives to each key, read off a method; and how much of the exact attention is kept, once it has adapted."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from attnbench import registry
from attnbench.api import Attention
from attnbench.schema.cell import Cell, Inputs, Workload
from attnbench.schema.errand import Job, Pass
from attnbench.schema.noun import Scalar
from attnbench.schema.outcome import COSINE, FIDELITY_SCORES, MASS_RECALL, OUTPUT_ERROR, TOP_OVERLAP, Failed, Outcome, Status
from attnbench.schema.problem import DType, Problem
from attnbench.workloads import fidelity
from attnbench.workloads.fidelity import SEQUENCES, THE_SAME, adapt, cosine, mass_recall, output_error, top_overlap
from attnbench.workloads.setting import build, whole
from attnbench.workloads.weights import draw_weights, exact_weights, executed_weights, weights
from tests.workloads.conftest import measured, prospect_of, scores_of


def problem(N: int = 32, **changes: object) -> Problem:
    return Problem(**{"B": 2, "H": 4, "N": N, "D": 8, "dtype": DType.FLOAT64, "causal": True, **changes})


def made(name: str, p: Problem, **params: int) -> tuple[Attention, tuple[Tensor, ...]]:
    method = registry.build(name, p, **params).double()
    return method, type(method).inputs(p, torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("name", "params"),
    [("softmax.sdpa", {}), ("linear.chunked", {}), ("lsh.reformer_pytorch", {"bucket_size": 4, "rounds": 2})],
)
@pytest.mark.parametrize("N", [8, 32, 40])
def test_a_method_gives_the_weights_of_its_definition(name: str, params: dict[str, int], N: int) -> None:
    method, inputs = made(name, problem(N), **params)
    choices = method.choose(*inputs)
    found = executed_weights(method, inputs, choices)
    assert found.shape == (2, 4, N, N)
    torch.testing.assert_close(found, weights(method, inputs, choices), atol=1e-10, rtol=0)
    assert choices is None or not torch.equal(found, weights(method, inputs)), "choices of its own are others"


def test_weights_are_asked_for_in_the_width_of_the_problem_and_leave_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    method, inputs = made("softmax.naive", problem(21))
    widths, forward = [], method.forward

    def watched(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        widths.append(v.shape[-1])
        return forward(q, k, v)

    monkeypatch.setattr(method, "forward", watched)
    before = [x.clone() for x in inputs]
    assert executed_weights(method, inputs, None).shape[-1] == 21
    assert widths == [8, 8, 8]
    assert all(torch.equal(x, y) for x, y in zip(inputs, before, strict=True))


def test_the_exact_attention_is_softmax_where_a_method_does_not_say_otherwise() -> None:
    linear, softmax = made("linear.chunked", problem()), made("softmax.naive", problem())
    torch.testing.assert_close(exact_weights(*linear), weights(*softmax), atol=1e-10, rtol=0)


def test_a_drawing_depends_on_its_seed_alone_and_has_methods_for_gpus_alone_too() -> None:
    p = problem(causal=False, dtype=DType.FLOAT32)
    first = draw_weights("lsh.reformer_pytorch", p, {"bucket_size": 4}, 3)
    torch.rand(7)
    assert torch.equal(first, draw_weights("lsh.reformer_pytorch", p, {"bucket_size": 4}, 3))
    assert not torch.equal(first, draw_weights("lsh.reformer_pytorch", p, {"bucket_size": 4}, 4))
    causal = problem(dtype=DType.FLOAT32)
    torch.testing.assert_close(draw_weights("linear.cuda", causal, {}, 0), draw_weights("linear.chunked", causal, {}, 0))


def test_recall_is_the_exact_mass_on_top_keys_that_get_any_weight() -> None:
    exact = torch.tensor([[0.5, 0.3, 0.2, 0.0], [0.1, 0.2, 0.3, 0.4]])
    found = torch.tensor([[0.0, 1e-30, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0]])
    assert mass_recall(found, exact, top=2) == pytest.approx((0.3 / 0.8 + 0.4 / 0.7) / 2)
    assert mass_recall(found, exact, top=100) == pytest.approx((0.5 + 0.4) / 2)
    assert mass_recall(-torch.ones(3, 3), torch.eye(3)) == 0, "a negative weight is none"


def test_the_overlap_of_top_keys_goes_by_the_method_s_own_weights_and_keys_without_weight_are_none() -> None:
    exact = torch.tensor([[0.5, 0.3, 0.2, 0.0], [0.1, 0.2, 0.3, 0.4]])
    found = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.0, 0.0, 0.1, 0.9]])
    assert top_overlap(found, exact, top=2) == pytest.approx((0 + 1) / 2)
    assert top_overlap(found, exact, top=3) == pytest.approx((2 / 3 + 2 / 3) / 2)
    exact = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.4, 0.3, 0.3]])
    assert top_overlap(exact, exact, top=3) == 1
    for nothing in (torch.zeros(3, 3), -exact, torch.full((3, 3), torch.nan)):
        assert top_overlap(nothing, exact, top=3) == 0


def test_of_equal_weights_the_earlier_key_comes_first_on_both_sides() -> None:
    even = torch.full((1, 1000), 1e-3)
    assert top_overlap(2 * even, even) == 1
    later = even.clone()
    later[0, -32:] *= 2
    assert top_overlap(later, even) == 0


def test_the_error_of_the_output_is_relative_and_the_cosine_of_each_query_knows_no_length() -> None:
    assert output_error(torch.full((1, 1, 3, 4), 3.0), torch.full((1, 1, 3, 4), 2.0)) == pytest.approx(0.5)
    o = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0], [1.0, 0.0]])
    exact = torch.tensor([[3.0, 0.0], [0.0, -1.0], [1.0, 0.0], [0.0, 5.0]])
    assert cosine(o, exact) == pytest.approx((1 - 1 + 0.5**0.5 + 0) / 4)
    assert cosine(torch.zeros(4, 2), exact) == 0


def cell(name: str, N: int = 64, causal: bool = False, **params: Scalar) -> Cell:
    return Cell(method=name, problem=Problem(H=2, N=N, D=8, causal=causal), workload=Workload.FIDELITY, params=params)


def outcome_of(one: Cell, seed: int = 3) -> Outcome:
    return fidelity.measure_fidelity(Job(cell=one, phase=Pass.FIDELITY, seed=seed))


def scores(*given: object, seed: int = 3, **named: object) -> dict[str, float]:
    return scores_of(outcome_of(cell(*given, **named), seed))  # type: ignore[arg-type]


@pytest.mark.parametrize("N", [1, 31, 64])
@pytest.mark.parametrize("causal", [True, False])
def test_an_exact_method_keeps_everything(N: int, causal: bool) -> None:
    all_kept = {OUTPUT_ERROR: 0, COSINE: 1, MASS_RECALL: 1, TOP_OVERLAP: 1}
    assert scores("gate_cases:Right", N, causal) == pytest.approx(all_kept, abs=1e-6)


def test_a_record_says_how_many_keys_are_top_ones_and_what_is_approximated_and_has_neither_time_nor_memory() -> None:
    found = measured(outcome_of(cell("gate_cases:Right", 16)))
    assert (found.facts["top_keys"], found.facts["exact"]) == (16, "Softmax attention over all keys")
    assert {name: series.unit for name, series in found.samples.items()} == dict.fromkeys(FIDELITY_SCORES, "1")
    assert not found.memory
    assert measured(outcome_of(cell("gate_cases:Right", 64))).facts["top_keys"] == 32
    assert set(scores("blocks.hca", 64, True)) == {OUTPUT_ERROR, COSINE}, "its key is its value too"


def test_hashing_keeps_more_in_more_rounds_and_all_where_there_are_only_two_buckets() -> None:
    one, four = (scores("lsh.reformer_pytorch", 128, rounds=R, bucket_size=8) for R in (1, 4))
    assert one[MASS_RECALL] + 0.1 < four[MASS_RECALL] < 1
    assert four[OUTPUT_ERROR] < one[OUTPUT_ERROR]
    assert four[COSINE] > one[COSINE]
    assert four[TOP_OVERLAP] > one[TOP_OVERLAP]
    everything = scores("lsh.reformer_pytorch", 64, rounds=1, bucket_size=32)
    assert everything[MASS_RECALL] == pytest.approx(1)
    assert everything[OUTPUT_ERROR] < 1e-6


def test_what_is_not_a_number_is_a_row_and_never_a_sample() -> None:
    outcome = outcome_of(cell("gate_cases:OneNaN"))
    assert isinstance(outcome, Failed)
    assert outcome.status is Status.ERROR
    assert outcome.reason.startswith("output_error is not a finite number")


def test_a_method_is_asked_about_a_forward_and_checked_on_one() -> None:
    # another workload than a forward is refused by this one
    assert prospect_of(cell("attnbench.workloads.slowed:Slowed", method="softmax.sdpa", share=0.5)).why_not is None
    right = prospect_of(cell("gate_cases:Right"))
    assert right.checks[0].workload is Workload.FORWARD_BACKWARD
    assert right.cost is not None


def quantised(codes: int = 8, **fields: object) -> Cell:
    given = {"method": "vq.quantised", "workload": Workload.FIDELITY, "params": {"codes": codes}, **fields}
    return Cell.model_validate({**given, "problem": Problem(H=2, N=64, D=16)})


def seen_by(one: Cell, monkeypatch: pytest.MonkeyPatch) -> tuple[str, tuple[Tensor, ...]]:
    """What adapting says of itself, and what it hands over."""
    handed: list[tuple[Tensor, ...]] = []
    monkeypatch.setattr(registry.load(one.method), "adapt", lambda _, *inputs: handed.append(inputs))
    return adapt(build(one, 3), one, 3), handed[0]


@pytest.mark.parametrize("kind", [Inputs.NORMAL, Inputs.PEAKED, Inputs.CLUSTERED])
def test_it_adapts_to_other_sequences_of_the_same_kind(kind: Inputs, monkeypatch: pytest.MonkeyPatch) -> None:
    one = quantised(inputs=kind)
    words, others = seen_by(one, monkeypatch)
    assert words == "8 other sequences"
    for other, mine in zip(others, whole(one, 3).inputs, strict=True):
        assert other.shape == (SEQUENCES, 2, 64, 16)
        assert torch.cdist(other.transpose(0, 1).flatten(1, 2), mine[0]).min() > 0.1


@pytest.mark.parametrize(
    ("held", "words", "others"), [(3, "2 other sequences", 2), (20, "8 other sequences", 8), (1, THE_SAME, 0)]
)
def test_of_a_recording_it_adapts_to_those_that_are_not_measured_while_there_are_some(
    held: int, words: str, others: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "made.safetensors"
    save_file({name: torch.randn(held, 2, 64, 16) for name in ("q", "k", "v")}, file)
    one = quantised(inputs=Inputs.RECORDED, recording=str(file))
    said, (_, keys, _) = seen_by(one, monkeypatch)
    assert said == words
    mine = whole(one, 3).inputs[1]
    assert [torch.equal(x, mine[0]) for x in keys] == ([False] * others if others else [True])


def test_a_method_with_nothing_to_adapt_is_left_alone_and_says_nothing() -> None:
    assert "adapted" not in measured(outcome_of(cell("softmax.sdpa"))).facts
    assert measured(outcome_of(quantised())).facts["adapted"] == "8 other sequences"


def test_more_codes_keep_more_of_keys_that_cluster_and_the_seed_alone_says_how_much() -> None:
    def error(codes: int, seed: int = 3) -> float:
        return scores_of(outcome_of(quantised(codes, inputs=Inputs.CLUSTERED), seed))[OUTPUT_ERROR]

    assert error(2) > 1.2 * error(8) > 1.44 * error(32)
    assert error(8) == error(8) != error(8, seed=4)
