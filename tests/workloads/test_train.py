"""The training pass: one record of times, scores and curves, the same for the same seed; and the memory of an update."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from attnbench.analyze.digest import digest
from attnbench.measure.loop import MIN_SAMPLES
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import Job, Limits, Pass
from attnbench.schema.outcome import (
    ACCURACY,
    BITS,
    COMPLETED,
    CURVE,
    CURVE_ACCURACY,
    CURVE_ERROR_RATE,
    DRAWN,
    ERROR_RATE,
    GIVEN,
    LOSS,
    Failed,
    Measured,
)
from attnbench.schema.problem import DType, Problem
from attnbench.schema.record import Record
from attnbench.schema.training import Training
from attnbench.store.run_folder import checkpoint_of
from attnbench.worker.main import failure
from attnbench.workloads.footprint import measure_memory
from attnbench.workloads.prepare import Updating, prepare
from attnbench.workloads.train import measure_training

SCORES = {LOSS, "time", *CURVE}


def cell_of(task: str = "copy", N: int = 16, method: str = "gate_cases:Right", **fields: Any) -> Cell:
    plan = {"task": task, "symbols": 20, "layers": 2, "feedforward": 2, "updates": 6, "evaluations": 2, "held_out": 8}
    plan |= fields
    problem = Problem(B=4, H=2, N=N, D=8, causal=True)
    return Cell(method=method, problem=problem, workload=Workload.TRAIN, training=Training.model_validate(plan))


def job_of(cell: Cell, **fields: Any) -> Job:
    return Job(cell=cell, phase=Pass.TRAIN, seed=5, limits=Limits(seconds=1000), **fields)


def trained(job: Job) -> Measured:
    measured = measure_training(job)
    assert isinstance(measured, Measured), measured.reason
    return measured


def train(task: str = "copy", N: int = 16, **fields: Any) -> Measured:
    return trained(job_of(cell_of(task, N, **fields)))


def test_a_record_has_times_scores_and_curves() -> None:
    measured = train()
    units = {"time": "s", LOSS: "nat", ACCURACY: "1", **dict(zip(CURVE, ("1", "s", "nat"), strict=True)), CURVE_ACCURACY: "1"}
    assert {name: series.unit for name, series in measured.samples.items()} == units
    values = {name: series.values for name, series in measured.samples.items()}
    assert len(values["time"]) == 6
    assert values[CURVE[0]] == (0, 3, 6)
    assert {len(values[name]) for name in (*CURVE, CURVE_ACCURACY)} == {3}
    assert values[LOSS] == values[CURVE[2]][-1:]
    assert values[ACCURACY] == values[CURVE_ACCURACY][-1:]
    assert values[CURVE[1]][-1] == pytest.approx(sum(values["time"]))


def test_its_facts_say_what_was_trained_on_what_and_how_far_from_chance_it_began() -> None:
    measured = train()
    facts = measured.facts
    assert (facts["updates"], facts["resumed_from"], facts["threads"], facts["deterministic"]) == (6, 0, 1, True)
    assert facts["chance_loss"] == pytest.approx(math.log(20))
    assert facts["chance_accuracy"] == pytest.approx(1 / 20)
    assert "copy" in str(facts["data"])
    # embeddings and positions; per layer q, k, v, out, two of feed-forward, two norms; a norm, and the head
    width, layer = 16, 16 * 48 + 48 + 16 * 16 + 16 + 2 * 16 * 32 + 32 + 16 + 4 * 16
    assert facts["parameters"] == 21 * width + 16 * width + 2 * layer + 2 * width + 21 * width + 21
    assert {"load_1min", "steal_percent"} <= set(facts)
    assert "checkpoint_ignored" not in facts
    assert measured.samples[CURVE[2]].values[0] == pytest.approx(math.log(21), rel=0.05)


def test_the_digest_of_a_record_finds_what_it_looks_for() -> None:
    cell = cell_of()
    record = Record(job=job_of(cell), outcome=train(), environment="x", started="2026-01-02T03:04:05", seconds=1.0)
    found = digest(record)
    assert found.useful
    assert {LOSS, ACCURACY, "time"} <= set(found.values)
    assert set(found.series) == {*CURVE, CURVE_ACCURACY}


def test_bytes_have_bits_and_an_accuracy_and_pixels_have_bits_alone() -> None:
    text = train("bytes", N=32)
    assert set(text.samples) == {*SCORES, ACCURACY, CURVE_ACCURACY, BITS}
    assert text.samples[BITS].values[0] == pytest.approx(text.samples[LOSS].values[0] / math.log(2))
    assert text.samples[BITS].unit == "bit"
    images = train("pixels", N=64)
    assert set(images.samples) == {*SCORES, BITS}
    assert (images.facts["image_rows"], images.facts["image_columns"], images.facts["levels"]) == (8, 8, 17)
    assert "image_rows" not in text.facts


def spoken(N: int = 32, **fields: Any) -> Cell:
    return cell_of("speech", N, **{"method": "softmax.sdpa", "symbols": 6, **fields}).reshaped(causal=False)


def test_speech_has_an_error_rate_and_no_accuracy() -> None:
    measured = trained(job_of(spoken()))
    assert set(measured.samples) == {*SCORES, ERROR_RATE, CURVE_ERROR_RATE}
    assert measured.samples[ERROR_RATE].values == measured.samples[CURVE_ERROR_RATE].values[-1:]
    assert measured.facts["chance_error_rate"] == 1
    assert measured.facts["chance_loss"] == pytest.approx(math.log(6))
    assert "chance_accuracy" not in measured.facts
    assert measured.facts["rows_compared"], "the attention was proven on the frames"
    cell = spoken()
    record = Record(job=job_of(cell), outcome=measured, environment="x", started="2026-01-02T03:04:05", seconds=1.0)
    assert ERROR_RATE in digest(record).values
    assert CURVE_ERROR_RATE in digest(record).series


@pytest.mark.parametrize("dtype", [DType.FLOAT64, DType.BFLOAT16])
def test_speech_is_learnt_in_every_precision(dtype: DType) -> None:
    cell = spoken()
    problem = cell.problem.model_copy(update={"dtype": dtype})
    setting = prepare(Job(cell=cell.model_copy(update={"problem": problem}), seed=5))
    assert isinstance(setting, Updating)
    # not by its proof: after few updates frames are nearly alike, and a gradient in bfloat16 is mostly rounding
    losses = [float(loss) for _ in range(6) if isinstance(loss := setting.call(), torch.Tensor)]
    assert len(losses) == 6
    assert losses[-1] < losses[0]


def test_speech_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    job = job_of(spoken(), folder=str(tmp_path))
    first = trained(job)
    assert trained(job).samples == first.samples


def test_the_output_of_a_model_that_hears_is_counted_by_what_it_says() -> None:
    memory = measure_memory(Job(cell=spoken(), phase=Pass.MEMORY, seed=5)).memory
    assert memory["output_bytes"].bytes == 4 * 32 * 7 * 4
    assert memory["input_bytes"].bytes == 4 * 32 * 40 * 4 + 4 * 32 * 8


@pytest.mark.parametrize("method", ["gate_cases:Right", "softmax.recompute"])
def test_images_are_drawn_and_completed_where_it_is_asked_for(method: str) -> None:
    samples = train("pixels", N=64, method=method, drawings=3).samples
    drawn, completed, given = (samples[name].values for name in (DRAWN, COMPLETED, GIVEN))
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
    measured = train("pixels", N=64, drawings=3)
    assert measured.facts["not_drawn"] == "it makes no sequences"
    assert set(measured.samples) == {*SCORES, BITS}


def test_the_same_seed_gives_the_same_scores_and_images() -> None:
    for task, N in (("recall", 34), ("pixels", 64)):
        one, other = (train(task, N, drawings=2 if task == "pixels" else 0) for _ in range(2))
        for name in one.samples.keys() - {"time", CURVE[1]}:
            assert one.samples[name] == other.samples[name], name


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("task", ["copy", "recall", "induction", "listops"])
def test_every_task_that_is_made_up_trains_with_a_mask_or_without(task: str, causal: bool) -> None:
    assert LOSS in trained(job_of(cell_of(task, N=64).reshaped(causal=causal))).samples


def test_a_training_goes_on_from_its_checkpoint_and_says_from_where(tmp_path: Path) -> None:
    job = job_of(cell_of(), folder=str(tmp_path))
    first = trained(job)
    assert checkpoint_of(tmp_path, job.cell, 0).exists()
    again = trained(job)
    assert again.facts["resumed_from"] == 6
    assert ("resumed" in again.flags, "resumed" in first.flags) == (True, False)
    assert again.samples == first.samples


def test_a_checkpoint_that_was_left_aside_is_a_fact(tmp_path: Path) -> None:
    job = job_of(cell_of(), folder=str(tmp_path))
    checkpoint_of(tmp_path, job.cell, 0).write_bytes(b"no safetensors")
    facts = measure_training(job).facts
    assert str(facts["checkpoint_ignored"]).startswith("it cannot be read")
    assert facts["resumed_from"] == 0


def test_few_updates_are_flagged() -> None:
    assert "few_samples" in train().flags
    assert "few_samples" not in train(updates=MIN_SAMPLES).flags


def test_a_training_over_its_budget_is_a_budget_row_that_says_how_far_it_came() -> None:
    job = job_of(cell_of()).model_copy(update={"limits": Limits(seconds=1e-6)})
    with pytest.raises(Exception, match="1 of 6 updates took") as caught:
        measure_training(job)
    failed = failure(caught.value)
    assert isinstance(failed, Failed)
    assert failed.status == "budget"


def test_the_memory_of_an_update_is_all_that_forward_backward_and_step_need() -> None:
    job = Job(cell=cell_of(), phase=Pass.MEMORY, seed=5)
    memory = measure_memory(job).memory
    setting = prepare(job)
    assert isinstance(setting, Updating)
    assert memory["parameter_bytes"].bytes == 4 * setting.model.size
    assert memory["input_bytes"].bytes == 2 * 4 * 16 * 8
    assert memory["output_bytes"].bytes == 4 * 16 * 21 * 4
    peak, saved = memory["torch_profiler_peak"].bytes, memory["saved_for_backward"].bytes
    assert peak is not None
    assert saved is not None
    assert saved > 0
    assert peak > max(saved, 4 * setting.model.size), "a gradient of each weight at least"
    assert "state_bytes" not in memory


def test_an_update_leaves_no_gradient_and_moves_the_weights() -> None:
    setting = prepare(Job(cell=cell_of(), seed=5))
    assert isinstance(setting, Updating)
    before = setting.model.head.weight.detach().clone()
    setting.call()
    assert all(p.grad is None for p in setting.model.parameters())
    assert not torch.equal(before, setting.model.head.weight)
