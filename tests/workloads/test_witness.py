"""What is kept of timed calls, and what a method may not do to its inputs."""

import pytest
import torch

from attnbench.schema.cell import Cell, Workload
from attnbench.schema.outcome import Status
from attnbench.schema.problem import Problem
from attnbench.workloads.holding import WrongError
from attnbench.workloads.setting import Setting, whole
from attnbench.workloads.witness import Witness, output_of


@pytest.fixture
def setting() -> Setting:
    problem = Problem(B=2, H=2, N=32, D=8)
    made = whole(Cell(method="gate_cases:Right", problem=problem, workload=Workload.FORWARD), 1)
    made.add_sets(3)
    return made


def test_the_first_outputs_are_kept_and_then_fewer_and_fewer_with_the_set_they_are_of(setting: Setting) -> None:
    witness = Witness(setting)
    for _ in range(2000):
        witness(setting.call())
    assert 4 <= len(witness.seen) <= 80
    assert {number for number, _ in witness.seen} == {0, 1, 2}
    assert {tuple(rows.shape) for _, rows in witness.seen} == {(4, 8)}
    assert witness.wrong is None


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
        output_of(setting, result)


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
