"""Training and generation as workloads: records of times, scores and curves, the same for the same seed; what they need."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from attnbench.measure.loop import MIN_SAMPLES
from attnbench.schema import outcome
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import Job, Limits, Pass
from attnbench.schema.outcome import Measured
from attnbench.schema.problem import DType, Problem
from attnbench.schema.training import Training
from attnbench.store.run_folder import checkpoint_of
from attnbench.training.reading import ANEW, STEP_BY_STEP, Anew, ByStep, Reader
from attnbench.workloads.footprint import fit, measure_memory, memory_of
from attnbench.workloads.prepare import Generation, Updating, prepare
from attnbench.workloads.timing import measure_time
from attnbench.workloads.train import measure_training
from tests.workloads.conftest import measured, prospect_of

SCORES = {outcome.LOSS, "time", *outcome.CURVE}


def cell_of(task: str = "copy", N: int = 16, method: str = "gate_cases:Right", **fields: Any) -> Cell:
    plan = {"task": task, "symbols": 20, "layers": 2, "feedforward": 2, "updates": 6, "evaluations": 2, "held_out": 8}
    training = Training.model_validate(plan | fields)
    return Cell(method=method, problem=Problem(B=4, H=2, N=N, D=8, causal=True), workload=Workload.TRAIN, training=training)


def spoken(**fields: Any) -> Cell:
    return cell_of("speech", 32, "softmax.sdpa", **{"symbols": 6, **fields}).reshaped(causal=False)


def trained(cell: Cell, **fields: Any) -> Measured:
    job = Job(cell=cell, phase=Pass.TRAIN, seed=5, limits=Limits(seconds=1000), **fields)
    return measured(measure_training(job))


def updating(cell: Cell) -> Updating:
    setting = prepare(Job(cell=cell, seed=5))
    assert isinstance(setting, Updating)
    return setting


def test_a_record_has_times_scores_and_curves() -> None:
    found = trained(cell_of())
    shares = {outcome.ACCURACY: "1", outcome.CURVE_ACCURACY: "1"}
    units = {"time": "s", outcome.LOSS: "nat", **dict(zip(outcome.CURVE, ("1", "s", "nat"), strict=True)), **shares}
    assert {name: series.unit for name, series in found.samples.items()} == units
    values = {name: series.values for name, series in found.samples.items()}
    assert len(values["time"]) == 6
    assert values[outcome.CURVE[0]] == (0, 3, 6)
    assert {len(values[name]) for name in (*outcome.CURVE, outcome.CURVE_ACCURACY)} == {3}
    assert values[outcome.LOSS] == values[outcome.CURVE[2]][-1:]
    assert values[outcome.ACCURACY] == values[outcome.CURVE_ACCURACY][-1:]
    assert values[outcome.CURVE[1]][-1] == pytest.approx(sum(values["time"]))


def test_its_facts_say_what_was_trained_on_what_and_how_far_from_chance_it_began() -> None:
    found = trained(cell_of())
    facts = found.facts
    assert (facts["updates"], facts["resumed_from"], facts["threads"], facts["deterministic"]) == (6, 0, 1, True)
    assert (facts["chance_loss"], facts["chance_accuracy"]) == pytest.approx((math.log(20), 1 / 20))
    assert found.samples[outcome.CURVE[2]].values[0] == pytest.approx(math.log(21), rel=0.05)
    assert "copy" in str(facts["data"])
    # embeddings and positions; per layer q, k, v, out, two of feed-forward, two norms; a norm, and the head
    width, layer = 16, 16 * 48 + 48 + 16 * 16 + 16 + 2 * 16 * 32 + 32 + 16 + 4 * 16
    assert facts["parameters"] == 21 * width + 16 * width + 2 * layer + 2 * width + 21 * width + 21
    assert {"load_1min", "steal_percent"} <= set(facts)
    assert "checkpoint_ignored" not in facts
    assert "few_samples" in found.flags
    assert "few_samples" not in trained(cell_of(updates=MIN_SAMPLES)).flags


def test_bytes_have_bits_and_an_accuracy_and_pixels_have_bits_alone() -> None:
    text = trained(cell_of("bytes", N=32))
    assert set(text.samples) == {*SCORES, outcome.ACCURACY, outcome.CURVE_ACCURACY, outcome.BITS}
    assert text.samples[outcome.BITS].values[0] == pytest.approx(text.samples[outcome.LOSS].values[0] / math.log(2))
    assert text.samples[outcome.BITS].unit == "bit"
    images = trained(cell_of("pixels", N=64))
    assert set(images.samples) == {*SCORES, outcome.BITS}
    assert (images.facts["image_rows"], images.facts["image_columns"], images.facts["levels"]) == (8, 8, 17)
    assert "image_rows" not in text.facts


def test_speech_has_an_error_rate_and_no_accuracy() -> None:
    found = trained(spoken())
    assert set(found.samples) == {*SCORES, outcome.ERROR_RATE, outcome.CURVE_ERROR_RATE}
    assert found.samples[outcome.ERROR_RATE].values == found.samples[outcome.CURVE_ERROR_RATE].values[-1:]
    assert found.facts["chance_error_rate"] == 1
    assert found.facts["chance_loss"] == pytest.approx(math.log(6))
    assert "chance_accuracy" not in found.facts
    assert found.facts["rows_compared"], "the attention was proven on the frames"


@pytest.mark.parametrize("dtype", [DType.FLOAT64, DType.BFLOAT16])
def test_speech_is_learnt_in_every_precision(dtype: DType) -> None:
    cell = spoken()
    setting = updating(cell.model_copy(update={"problem": cell.problem.model_copy(update={"dtype": dtype})}))
    assert setting.output().bytes == 4 * 32 * 7 * dtype.bytes
    # not by its proof: after few updates frames are nearly alike, and a gradient in bfloat16 is mostly rounding
    losses = [float(loss) for _ in range(6) if isinstance(loss := setting.call(), torch.Tensor)]
    assert len(losses) == 6
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("method", ["gate_cases:Right", "softmax.recompute"])
def test_images_are_drawn_and_completed_where_it_is_asked_for(method: str) -> None:
    samples = trained(cell_of("pixels", N=64, method=method, drawings=3)).samples
    drawn, completed, given = (samples[name].values for name in (outcome.DRAWN, outcome.COMPLETED, outcome.GIVEN))
    assert len(drawn) == len(completed) == len(given) == 3 * 64
    assert all(0 <= pixel <= 16 and pixel == int(pixel) for pixel in (*drawn, *completed, *given))
    for image in range(3):
        upper = slice(64 * image, 64 * image + 32)
        assert completed[upper] == given[upper]
    assert completed != given
    assert drawn[:64] != drawn[64:128]


def test_a_model_that_cannot_draw_has_learnt_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: object, **named: object) -> None:
        raise ValueError("it makes no sequences\nat all")

    monkeypatch.setattr("attnbench.workloads.train.draw_images", refuse)
    found = trained(cell_of("pixels", N=64, drawings=3))
    assert found.facts["not_drawn"] == "it makes no sequences"
    assert set(found.samples) == {*SCORES, outcome.BITS}


@pytest.mark.parametrize("cell", [cell_of("recall", 34), cell_of("pixels", 64, drawings=2)], ids=["recall", "pixels"])
def test_the_same_seed_gives_the_same_scores_and_images(cell: Cell) -> None:
    one, other = (trained(cell).samples for _ in range(2))
    timed = {"time", outcome.CURVE[1]}
    assert {name: one[name] for name in one.keys() - timed} == {name: other[name] for name in other.keys() - timed}


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("task", ["copy", "recall", "induction", "listops"])
def test_every_task_that_is_made_up_trains_with_a_mask_or_without(task: str, causal: bool) -> None:
    assert outcome.LOSS in trained(cell_of(task, N=64).reshaped(causal=causal)).samples


def test_a_training_goes_on_from_its_checkpoint_and_says_from_where_or_why_not(tmp_path: Path) -> None:
    cell = spoken()
    first, again = (trained(cell, folder=str(tmp_path)) for _ in range(2))
    assert again.facts["resumed_from"] == 6
    assert ("resumed" in again.flags, "resumed" in first.flags) == (True, False)
    assert again.samples == first.samples
    checkpoint_of(tmp_path, cell, 0).write_bytes(b"no safetensors")
    facts = trained(cell, folder=str(tmp_path)).facts
    assert str(facts["checkpoint_ignored"]).startswith("it cannot be read")
    assert facts["resumed_from"] == 0


def test_the_memory_of_an_update_is_all_that_forward_backward_and_step_need() -> None:
    memory, size = measure_memory(Job(cell=cell_of(), phase=Pass.MEMORY, seed=5)).memory, 4 * updating(cell_of()).model.size
    assert memory["parameter_bytes"].bytes == size
    assert memory["input_bytes"].bytes == 2 * 4 * 16 * 8
    assert memory["output_bytes"].bytes == 4 * 16 * 21 * 4
    peak, saved = (memory[name].bytes or 0 for name in ("torch_profiler_peak", "saved_for_backward"))
    assert saved > 0
    assert peak > max(saved, size), "a gradient of each weight at least"
    assert "state_bytes" not in memory
    # of a model that hears, what it says is counted
    memory = measure_memory(Job(cell=spoken(), phase=Pass.MEMORY, seed=5)).memory
    assert memory["output_bytes"].bytes == 4 * 32 * 7 * 4
    assert memory["input_bytes"].bytes == 4 * 32 * 40 * 4 + 4 * 32 * 8


def test_what_an_optimiser_keeps_from_its_first_update_on_is_no_memory_of_an_update() -> None:
    cell = cell_of(feedforward=64).reshaped(B=1)
    setting = updating(cell)
    assert not setting.optimiser.state
    # the first call, and one later
    first, later = (memory_of(setting).memory["torch_profiler_peak"].bytes or 0 for _ in range(2))
    assert first > later == measure_memory(Job(cell=cell, phase=Pass.MEMORY, seed=5)).memory["torch_profiler_peak"].bytes


def made_by(method: str = "softmax.sdpa", *, B: int = 3, N: int = 64, **fields: Any) -> Cell:
    training = Training.model_validate({"task": "pixels", "layers": 2, "feedforward": 2, **fields})
    return Cell(method=method, problem=Problem(B=B, H=2, N=N, D=8, causal=True), workload=Workload.GENERATE, training=training)


def generating(*given: Any, **named: Any) -> Generation:
    setting = prepare(Job(cell=made_by(*given, **named), seed=5))
    assert isinstance(setting, Generation)
    return setting


@pytest.mark.parametrize(("method", "way"), [("softmax.sdpa", STEP_BY_STEP), ("softmax.recompute", ANEW)])
def test_a_call_makes_all_tokens_of_all_sequences_and_its_row_says_how(method: str, way: str) -> None:
    setting = generating(method)
    tokens = setting.call()
    assert isinstance(tokens, torch.Tensor)
    assert (tokens.shape, tokens.dtype) == ((3, 64), torch.int64)
    assert 0 <= int(tokens.min()) <= int(tokens.max()) <= 16
    assert setting.reader.way == way
    assert torch.equal(tokens, generating(method).forward()), "the same seed makes the same tokens"
    found = measure_time(Job(cell=made_by(method), limits=Limits(seconds=0.05)))
    assert (found.facts["generation"], found.facts["layers"]) == (way, 2)
    assert isinstance(found.facts["parameters"], int)
    assert set(found.samples) - {"energy"} == {"time", "warmup", "first_call"}


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Shapes of all that is read."""
    seen: list[tuple[int, ...]] = []
    for kind in (ByStep, Anew):
        read = kind.read

        def spy(self: Reader, tokens: torch.Tensor, read: Any = read) -> torch.Tensor:
            seen.append(tuple(tokens.shape))
            said: torch.Tensor = read(self, tokens)
            return said

        monkeypatch.setattr(kind, "read", spy)
    return seen


@pytest.mark.parametrize(("N", "read"), [(64, [(3, 1), (3, 1)]), (1, [(3, 1)])])
def test_a_look_at_the_kernel_reads_two_tokens(N: int, read: list[tuple[int, int]], reads: list[tuple[int, ...]]) -> None:
    setting = generating(N=N)
    reads.clear()
    setting.first_token()
    assert reads == read


@pytest.mark.parametrize(
    ("method", "once"), [("softmax.sdpa", [(5, 1)]), ("softmax.recompute", [(5, length) for length in range(4, 65, 4)])]
)
def test_a_batch_is_tried_by_its_largest_steps(method: str, once: list[tuple[int, int]], reads: list[tuple[int, ...]]) -> None:
    assert fit(Job(cell=made_by(method, B=1), phase=Pass.FIT, B=5, limits=Limits(first_call=60.0))).facts["B"] == 5
    assert reads[-2 * len(once) :] == 2 * once
    assert (5, 63) not in reads, "a prompt of the whole batch would need more memory than its steps"


def test_a_trial_is_the_last_token_of_a_whole_call_whose_time_it_stands_for_and_leaves_no_state_behind() -> None:
    setting = generating()
    last = setting.trial()
    with torch.inference_mode():
        whole, _ = setting.model(torch.full((3, 64), 17))
    torch.testing.assert_close(last, whole[:, -1])
    assert (setting.trials, generating("softmax.recompute").trials) == (64, 64 / 16)
    for method in ("softmax.sdpa", "linear.chunked"):
        setting = generating(method)
        setting.trial()
        assert isinstance(setting.reader, ByStep)
        assert setting.reader.states == []


@pytest.mark.parametrize(
    ("method", "size", "least"),
    [
        ("softmax.sdpa", 2 * 3 * 2 * 64 * (8 + 8) * 4, 2 * 3 * 2 * 64 * (8 + 8) * 4),
        ("softmax.recompute", 3 * 64 * 8, 3 * 64 * 16 * 4),
        ("linear.chunked", None, 0),
    ],
)
def test_memory_is_of_the_last_token_and_the_state_of_all_that_was_read(method: str, size: int | None, least: int) -> None:
    memory, setting = measure_memory(Job(cell=made_by(method), phase=Pass.MEMORY, seed=5)).memory, generating(method)
    assert memory["parameter_bytes"].bytes == 4 * setting.model.size
    assert memory["input_bytes"].bytes == 3 * 8
    assert memory["output_bytes"].bytes == 3 * 64 * 8
    assert memory["saved_for_backward"].bytes is None
    assert (memory["torch_profiler_peak"].bytes or 0) > least
    kept = setting.state_bytes()
    assert memory["state_bytes"].bytes == kept
    assert size in {None, kept}
    setting.forward()
    assert setting.reader.state_bytes() == kept


def test_no_data_is_needed_n_need_be_no_image_s_and_values_may_be_of_another_width() -> None:
    setting = generating(N=50, data="mnist")
    assert setting.model.alphabet.levels == 256
    assert setting.forward().shape == (3, 50)
    assert generating(N=20, task="bytes").model.alphabet.vocabulary == 257
    assert torch.as_tensor(prepare(Job(cell=made_by("softmax.naive").reshaped(M=12))).call()).shape == (3, 64)


@pytest.mark.parametrize("workload", [Workload.TRAIN, Workload.GENERATE])
def test_a_method_s_own_refusal_counts_and_what_a_model_costs_is_unknown(workload: Workload) -> None:
    cell = made_by().model_copy(update={"workload": workload})
    right = prospect_of(cell)
    assert (right.why_not, right.cost) == (None, None)
    assert right.checks
    assert "positions" in (prospect_of(cell.model_copy(update={"method": "linformer.linformer"})).why_not or "")
    wrong = cell.model_copy(update={"method": "linear.chunked", "params": {"chunk": -3}})
    assert "chunk" in (prospect_of(wrong).why_not or "")
