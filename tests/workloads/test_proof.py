"""The proof of a time: what is kept of timed calls, what is compared, and what a method may not do to its inputs."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from attnbench.api import Attention
from attnbench.measure.clock import Call, Look, WallClock, drop
from attnbench.pytest_plugin.given import named
from attnbench.registry import load
from attnbench.schema.cell import Cell, ClockMode, Inputs, Workload
from attnbench.schema.errand import Job, Limits
from attnbench.schema.noun import Facts
from attnbench.schema.outcome import Failed, Status
from attnbench.schema.problem import DType, Problem
from attnbench.schema.training import Training
from attnbench.workloads import holding, proof, proof_in_model
from attnbench.workloads.holding import WrongError
from attnbench.workloads.proof import Witness, rows_of
from attnbench.workloads.setting import Setting, whole
from attnbench.workloads.timing import input_sets, measure_time
from attnbench.workloads.train import measure_training
from tests.workloads.conftest import measured

SHAPE: dict[str, Any] = {"B": 2, "H": 4, "N": 200, "D": 8, "causal": True}
HASHED: dict[str, Any] = {"method": "lsh.reformer", "params": {"bucket_size": 16}, "N": 256}


def cell_of(method: str = "softmax.sdpa", workload: Workload = Workload.FORWARD, **fields: Any) -> Cell:
    shape = SHAPE | {name: fields.pop(name) for name in list(fields) if name in Problem.model_fields}
    return Cell(method=method, problem=Problem(**shape), workload=workload, **fields)


def proven(monkeypatch: pytest.MonkeyPatch, cell: Cell, share: float = 100.0) -> Facts:
    """The facts of a proof that has all the time it wants, or this share of it."""
    monkeypatch.setattr(proof, "SHARE", share)
    return measured(measure_time(Job(cell=cell, seed=1, limits=Limits(seconds=0.05)))).facts


@pytest.mark.parametrize(
    "cell",
    [
        cell_of(),
        cell_of(kv_heads=2),
        cell_of(padding=0.5),
        cell_of(dtype=DType.BFLOAT16),
        cell_of(N=1),
        cell_of(inputs=Inputs.PEAKED),
        cell_of(workload=Workload.FORWARD_BACKWARD),
        cell_of("linear.chunked", Workload.FORWARD_BACKWARD, params={"chunk": 32}),
        cell_of(workload=Workload.FORWARD_BACKWARD, **HASHED),
        cell_of("sparse.topk"),
        cell_of("delta.deltanet", Workload.DECODE_TOTAL),
        cell_of(workload=Workload.BACKWARD),
        cell_of("softmax.mla", Workload.BACKWARD),
        cell_of(workload=Workload.BACKWARD, **HASHED),
        cell_of("vq.blockwise", Workload.PREFILL),
        cell_of(workload=Workload.VERIFY, new_tokens=5),
        cell_of("gated.log_linear", Workload.VERIFY, new_tokens=5),
        cell_of("gated.log_linear", Workload.DECODE),
    ],
    ids=lambda cell: f"{cell.label} {cell.workload.value}",
)
def test_a_right_method_is_proven_and_its_row_says_how_well(monkeypatch: pytest.MonkeyPatch, cell: Cell) -> None:
    facts, p = proven(monkeypatch, cell), cell.problem
    rows = min(4, p.B) * p.H if cell.workload.decodes else min(64, p.B * p.H * p.N)
    assert int(facts["rows_compared"] or 0) >= min(rows, 64)
    assert float(facts["row_error"] or 0) < (3e-2 if p.dtype is DType.BFLOAT16 else 5e-5)
    assert ("gradient_error" in facts) == cell.workload.learns
    assert "not_proven" not in facts


def test_a_proof_without_time_looks_at_one_place_and_says_what_it_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = proven(monkeypatch, cell_of(workload=Workload.FORWARD_BACKWARD), share=0.0)
    assert facts["rows_compared"] == 8
    # where one call took all the time there is, no output of a timed call was kept
    timed = ["timed outputs on some sets of inputs"] if facts["outputs_seen"] else []
    assert str(facts["not_proven"]).split("; ") == [*timed, "gradients of all heads", "7 of 8 heads of the output"]


class Once(load("softmax.sdpa")):  # type: ignore[misc]
    """Right on what it sees first."""

    seen: Tensor | None = None

    def forward(self, q: Tensor, k: Tensor, v: Tensor, **keywords: Any) -> Tensor:
        if self.seen is None:
            self.seen = v
        o: Tensor = super().forward(q, k, self.seen, **keywords)
        return o


class Writes(load("linear.recurrent")):  # type: ignore[misc]
    appends, extend = True, Attention.extend


def test_inputs_are_taken_in_turns_and_each_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    assert proven(monkeypatch, cell_of())["input_sets"] == 4
    with named(Once) as name:
        failed = measure_time(Job(cell=cell_of(name), limits=Limits(seconds=0.2)))
    assert isinstance(failed, Failed)
    assert failed.reason.startswith("output of a timed call is off by")
    assert failed.reason.endswith(" is not ranked")
    assert failed.samples["time"].values
    assert failed.facts["clock"] == "wall"
    with named(Writes) as name:
        outcome = measure_time(Job(cell=cell_of(name, Workload.VERIFY, new_tokens=5), limits=Limits(seconds=0.2)))
    assert "reason='output of a second call after the same state is off by" in repr(outcome)


@pytest.fixture
def setting() -> Setting:
    """A setting with three sets of inputs."""
    made = whole(cell_of("gate_cases:Right", H=2, N=32, causal=False), 1)
    made.add_sets(3)
    return made


@pytest.mark.parametrize("batch", range(1, 9))
def test_samples_end_on_every_set_of_inputs_however_many_calls_a_sample_has(setting: Setting, batch: int) -> None:
    witness = Witness(setting)
    for _ in range(3):
        WallClock().sample(setting.call, batch, witness)
    assert {turn for turn, _ in witness.seen} == {0, 1, 2}


def test_the_first_outputs_are_kept_and_then_fewer_and_fewer_with_the_set_they_are_of(setting: Setting) -> None:
    witness = Witness(setting)
    for _ in range(2000):
        witness(setting.call())
    assert 4 <= len(witness.seen) <= 80
    assert {number for number, _ in witness.seen} == {0, 1, 2}
    assert {tuple(rows.shape) for _, rows in witness.seen} == {(4, 8)}
    assert witness.wrong is None
    # a replay of a graph makes no call that would take the next set
    alone = whole(setting.cell, 1)
    witness, o = Witness(alone), alone.call()
    for _ in range(8):
        witness(o)
    assert {turn for turn, _ in witness.seen} == {0}


def test_the_last_of_several_calls_is_proven_by_its_own_choices_and_one_token(monkeypatch: pytest.MonkeyPatch) -> None:
    once, known = WallClock.sample, list[Call]()

    def late(self: WallClock, call: Call, batch: int, look: Look = drop) -> float:
        # as a clock of a GPU calls again where the host was late, until it knows for how long to hold the stream
        if call not in known:
            known.append(call)
            once(self, call, batch)
        return once(self, call, batch, look)

    with monkeypatch.context() as again:
        again.setattr(WallClock, "sample", late)
        assert proven(again, cell_of(**HASHED))["rows_compared"]
        assert proven(again, cell_of("linear.chunked", Workload.DECODE))["rows_compared"]
    monkeypatch.setattr(WallClock, "unrolled", 3)
    monkeypatch.setattr(WallClock, "prepare", lambda self, call: lambda: [call() for _ in range(3)][-1])
    assert proven(monkeypatch, cell_of(**HASHED))["rows_compared"]


def test_as_many_sets_are_made_as_a_twentieth_of_memory_holds_and_one_for_a_graph() -> None:
    cell = cell_of()
    setting, size = whole(cell, 1), 3 * 2 * 4 * 200 * 8 * 4

    def sets(memory: int, **fields: Any) -> int:
        return input_sets(setting, Job(cell=cell.model_copy(update=fields), limits=Limits(memory_bytes=memory)))

    assert [sets(20 * size * n - 1) for n in (1, 2, 3, 9)] == [1, 2, 3, 4]
    assert sets(2**40, clock=ClockMode.GRAPH) == 1


def test_other_sets_have_other_numbers_in_the_same_layout() -> None:
    setting = whole(cell_of("lsh.reformer"), 1)
    setting.add_sets(4)
    assert len({float(inputs[2].flatten()[0]) for inputs in setting.sets}) == 4
    assert all(inputs[0] is inputs[1] for inputs in setting.sets)
    assert {inputs[0].stride() for inputs in setting.sets} == {setting.inputs[0].stride()}
    assert len({inputs[2].data_ptr() for inputs in setting.sets}) == 4


@pytest.mark.parametrize("N", [100, 2**15])
def test_values_are_refilled_in_place_and_the_same_seed_gives_the_same(N: int) -> None:
    setting = whole(cell_of(N=N), 1)

    def filled(seed: int) -> list[Tensor]:
        setting.refill(seed)
        return [x.clone() for x in setting.inputs]

    where, before = [(x.data_ptr(), x._version) for x in setting.inputs], [x.clone() for x in setting.inputs]
    for old, one, two, again in zip(before, filled(5), filled(6), filled(5), strict=True):
        assert not torch.equal(old, one)
        assert not torch.equal(one, two)
        assert torch.equal(one, again)
    assert [(x.data_ptr(), x._version) for x in setting.inputs] == where


PLAN = {"task": "copy", "symbols": 20, "layers": 2, "updates": 2, "evaluations": 1, "held_out": 4}


def late(base: type[Attention]) -> type[Attention]:
    """Wrong beyond 350 tokens, where no check comes."""

    class Late(base):  # type: ignore[misc, valid-type]
        def forward(self, *inputs: Tensor, **keywords: Any) -> Tensor:
            o: Tensor = super().forward(*inputs, **keywords)
            return o.roll(1, 1) if self.problem.N > 350 else o

        def step(self, *inputs: Tensor, **keywords: Any) -> tuple[Tensor, Any]:
            o, state = super().step(*inputs, **keywords)
            return (o.roll(1, 1) if self.problem.N > 350 else o), state

    return Late


@pytest.mark.parametrize("name", ["softmax.sdpa", pytest.param("softmax.recompute", marks=pytest.mark.slow)])
@pytest.mark.parametrize("workload", [Workload.TRAIN, pytest.param(Workload.GENERATE, marks=pytest.mark.slow)])
def test_an_attention_that_is_wrong_within_a_model_is_incorrect(name: str, workload: Workload) -> None:
    shape: dict[str, Any] = {"N": 400, "training": Training.model_validate(PLAN)}
    measure = measure_training if workload is Workload.TRAIN else measure_time
    with named(late(load(name))) as called:
        failed = measure(Job(cell=cell_of(called, workload, **shape), limits=Limits(seconds=100)))
    assert isinstance(failed, Failed)
    assert failed.status is Status.INCORRECT
    assert "output of layer" in failed.reason
    assert failed.samples["time"].values
    right = measured(measure(Job(cell=cell_of(name, workload, **shape), limits=Limits(seconds=100))))
    assert int(right.facts["rows_compared"] or 0) > 0


def test_a_training_in_which_a_setting_was_changed_for_a_while_is_unfair_on_each_try(tmp_path: Path) -> None:
    base: Any = load("softmax.sdpa")
    calls = 0

    class Rounds(base):  # type: ignore[misc]
        def forward(self, *inputs: Tensor, **keywords: Any) -> Tensor:
            nonlocal calls
            calls += 1  # two judge, the third is of the first update
            torch.set_float32_matmul_precision("medium" if calls == 3 else "highest")
            o: Tensor = super().forward(*inputs, **keywords)
            return o

    for _ in range(2):
        calls = 0
        with named(Rounds) as called:
            cell = cell_of(called, Workload.TRAIN, training=Training.model_validate(PLAN | {"layers": 1}))
            failed = measure_training(Job(cell=cell, limits=Limits(seconds=100), folder=str(tmp_path)))
        assert isinstance(failed, Failed)
        assert (failed.status, failed.reason) == (Status.UNFAIR, "it changed matmul precision from highest to medium")
        assert not list(tmp_path.iterdir())


def test_gradients_within_a_model_may_be_as_far_off_as_their_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof_in_model, "SHARE", 100.0)
    monkeypatch.setattr(holding, "tolerance", lambda cell: 1e-9)
    monkeypatch.setattr(holding, "_OWN_ERROR", 1e6)
    cell = cell_of(workload=Workload.TRAIN, training=Training.model_validate(PLAN | {"layers": 1}))
    assert "not_proven" not in measured(measure_training(Job(cell=cell, limits=Limits(seconds=100)))).facts


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (None, "gave NoneType where torch.float32 [2, 2, 32, 8] on cpu is right"),
        (torch.zeros(2, 2, 31, 8), "gave torch.float32 [2, 2, 31, 8] on cpu where"),
        (torch.zeros(2, 2, 32, 8, dtype=torch.float64), "gave torch.float64 [2, 2, 32, 8] on cpu where"),
        (torch.nn.Parameter(torch.zeros(2, 2, 32, 8)), "gave a Parameter where a plain tensor is right"),
        (torch.zeros(2, 2, 32, 8).to_sparse(), "is right"),
    ],
)
def test_something_else_than_an_output_is_remembered_and_raised_later(setting: Setting, result: object, words: str) -> None:
    witness = Witness(setting)
    witness(result)
    assert words in str(witness.wrong)
    with pytest.raises(WrongError):
        rows_of(setting, result, witness.place)


def test_inputs_that_were_written_to_or_changed_their_shape_are_noticed_in_every_set(setting: Setting) -> None:
    witness = Witness(setting)
    witness.insist_on_inputs()
    setting.sets[2][1].data[0, 0, 16] += 1
    with pytest.raises(WrongError, match="it wrote into its inputs") as error:
        witness.insist_on_inputs()
    assert error.value.status is Status.UNFAIR
    witness.note_inputs()
    setting.sets[0][0].data = setting.sets[0][0].data[:, :, :8]
    with pytest.raises(WrongError, match=r"changed its inputs: \[2, 2, 32, 8\] became \[2, 2, 8, 8\]"):
        witness.insist_on_inputs()
