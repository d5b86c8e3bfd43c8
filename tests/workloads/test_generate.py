"""Generation as a workload: a call makes all tokens; what is looked at, tried and counted is a step and no more."""

from typing import Any

import pytest
import torch

from attnbench import registry
from attnbench.schema.cell import Cell, ClockMode, Workload
from attnbench.schema.errand import Inquiry, Job, Limits, Pass
from attnbench.schema.problem import Problem
from attnbench.schema.training import Task, Training
from attnbench.training.reading import ANEW, STEP_BY_STEP, Anew, ByStep, Reader
from attnbench.workloads.describe import describe
from attnbench.workloads.footprint import fit, measure_memory
from attnbench.workloads.prepare import Generation, prepare
from attnbench.workloads.timing import measure_time

BOTH = [("softmax.sdpa", STEP_BY_STEP), ("softmax.recompute", ANEW)]


def cell_of(
    method: str = "softmax.sdpa", *, B: int = 3, N: int = 64, workload: Workload = Workload.GENERATE, **fields: Any
) -> Cell:
    plan = {"task": "pixels", "layers": 2, "feedforward": 2, **fields}
    problem = Problem(B=B, H=2, N=N, D=8, causal=True)
    return Cell(method=method, problem=problem, workload=workload, training=Training.model_validate(plan))


def setting_of(*given: Any, **named: Any) -> Generation:
    setting = prepare(Job(cell=cell_of(*given, **named), seed=5))
    assert isinstance(setting, Generation)
    return setting


@pytest.mark.parametrize(("method", "way"), BOTH)
def test_a_call_makes_all_tokens_of_all_sequences(method: str, way: str) -> None:
    setting = setting_of(method)
    made = setting.call()
    assert isinstance(made, torch.Tensor)
    assert (made.shape, made.dtype) == ((3, 64), torch.int64)
    assert 0 <= int(made.min()) <= int(made.max()) <= 16
    assert setting.reader.way == way
    assert torch.equal(made, setting_of(method).forward()), "the same seed makes the same tokens"


@pytest.mark.parametrize(("method", "way"), BOTH)
def test_a_row_of_times_says_how_tokens_were_made(method: str, way: str) -> None:
    job = Job(cell=cell_of(method), limits=Limits(seconds=0.05))
    measured = measure_time(job)
    assert measured.facts["generation"] == way
    assert measured.facts["layers"] == 2
    assert isinstance(measured.facts["parameters"], int)
    assert set(measured.samples) - {"energy"} == {"time", "warmup", "first_call"}


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


def test_a_look_at_the_kernel_reads_two_tokens(reads: list[tuple[int, ...]]) -> None:
    setting = setting_of()
    reads.clear()
    setting.first_token()
    assert reads == [(3, 1), (3, 1)]
    only = setting_of(N=1)
    reads.clear()
    only.first_token()
    assert reads == [(3, 1)]


@pytest.mark.parametrize(
    ("method", "once"), [("softmax.sdpa", [(5, 1)]), ("softmax.recompute", [(5, length) for length in range(4, 65, 4)])]
)
def test_a_batch_is_tried_by_its_largest_steps(method: str, once: list[tuple[int, int]], reads: list[tuple[int, ...]]) -> None:
    outcome = fit(Job(cell=cell_of(method, B=1), phase=Pass.FIT, B=5, limits=Limits(first_call=60.0)))
    assert outcome.facts["B"] == 5
    assert reads[-2 * len(once) :] == 2 * once
    assert (5, 63) not in reads, "a prompt of the whole batch would need more memory than its steps"


def test_the_last_token_is_the_one_that_a_whole_call_ends_with() -> None:
    setting = setting_of()
    last = setting.trial()
    with torch.inference_mode():
        start = torch.full((3, 64), 17)
        whole, _ = setting.model(start)
    torch.testing.assert_close(last, whole[:, -1])


def test_every_method_that_decodes_can_be_tried_and_counted() -> None:
    tried = []
    for name in registry.catalogue():
        method, cell = registry.load(name), cell_of(name, N=16)
        if method.decodes and not registry.missing(method) and not method.refusal(cell.call):
            setting = setting_of(name, N=16)
            assert setting.trial().shape[0] == 3
            assert setting.state_bytes() > 0
            tried.append(name)
    assert len(tried) > 25


def test_a_trial_stands_for_the_time_of_a_whole_call() -> None:
    assert setting_of("softmax.sdpa").trials == 64
    assert setting_of("softmax.recompute").trials == 64 / 16


@pytest.mark.parametrize(
    ("method", "size"),
    [("softmax.sdpa", 2 * 3 * 2 * 64 * (8 + 8) * 4), ("linear.chunked", None), ("softmax.recompute", 3 * 64 * 8)],
)
def test_the_state_is_that_of_all_layers_sequences_and_tokens_or_the_tokens_alone(method: str, size: int | None) -> None:
    setting = setting_of(method)
    kept = setting.state_bytes()
    setting.forward()
    assert kept == setting.reader.state_bytes()
    assert size in {None, kept}


@pytest.mark.parametrize("method", ["softmax.sdpa", "linear.chunked"])
def test_a_trial_leaves_no_state_behind_that_the_next_would_have_to_share_the_memory_with(method: str) -> None:
    setting = setting_of(method)
    setting.trial()
    assert isinstance(setting.reader, ByStep)
    assert setting.reader.states == []


@pytest.mark.parametrize("method", ["softmax.sdpa", "softmax.recompute"])
def test_memory_is_that_of_the_last_token_with_its_state(method: str) -> None:
    job = Job(cell=cell_of(method), phase=Pass.MEMORY, seed=5)
    memory = measure_memory(job).memory
    setting = prepare(job)
    assert isinstance(setting, Generation)
    assert memory["parameter_bytes"].bytes == 4 * setting.model.size
    assert memory["input_bytes"].bytes == 3 * 8
    assert memory["output_bytes"].bytes == 3 * 64 * 8
    assert memory["state_bytes"].bytes == setting.state_bytes()
    peak = memory["torch_profiler_peak"].bytes
    assert peak is not None
    assert peak > (setting.state_bytes() if method == "softmax.sdpa" else 3 * 64 * 16 * 4)
    assert memory["saved_for_backward"].bytes is None


def test_no_data_is_needed_and_n_need_be_no_image_s() -> None:
    setting = setting_of(N=50, data="mnist")
    assert setting.model.alphabet.levels == 256
    assert setting.forward().shape == (3, 50)
    assert setting_of(N=20, task="bytes").model.alphabet.vocabulary == 257


def asked(cell: Cell) -> str | None:
    (prospect,) = describe(Inquiry(method=cell.method, cells=(cell,))).prospects
    return prospect.why_not


def test_what_is_not_causal_is_refused_in_words() -> None:
    cell = cell_of()
    assert asked(cell.reshaped(causal=False)) == "sequences are made token by token, which is causal; set causal: true"
    speech = cell.model_copy(update={"training": Training(task=Task.SPEECH)})
    assert asked(speech) == "speech is heard as a whole and not made token by token; generate another task"
    padded = cell.model_copy(update={"problem": cell.problem.model_copy(update={"padding": 0.5})})
    assert asked(padded) == "sequences are made without padding"
    captured = cell.model_copy(update={"clock": ClockMode.GRAPH})
    assert asked(captured) == "tokens are drawn one after the other, which no CUDA graph can capture; use another clock"
    assert asked(cell) is None


@pytest.mark.parametrize("workload", [Workload.TRAIN, Workload.GENERATE])
def test_a_method_s_own_refusal_counts_and_what_a_model_costs_is_unknown(workload: Workload) -> None:
    cell = cell_of(workload=workload)
    (prospect,) = describe(Inquiry(method="softmax.sdpa", cells=(cell,))).prospects
    assert (prospect.why_not, prospect.cost) == (None, None)
    assert prospect.checks
    (refused,) = describe(Inquiry(method="linformer.linformer", cells=(cell,))).prospects
    assert refused.why_not is not None
    assert "positions" in refused.why_not
    wrong = cell.model_copy(update={"params": {"chunk": -3}})
    (bad,) = describe(Inquiry(method="linear.chunked", cells=(wrong,))).prospects
    assert "chunk" in (bad.why_not or "")


def test_a_cell_without_a_model_says_what_is_missing() -> None:
    cell = cell_of().model_copy(update={"training": None})
    with pytest.raises(ValueError, match="training is missing"):
        prepare(Job(cell=cell))


def test_values_may_be_of_another_width() -> None:
    made = prepare(Job(cell=cell_of("softmax.naive").reshaped(M=12))).call()
    assert torch.as_tensor(made).shape == (3, 64)
