"""Attentions that are honest where they are checked and cheat where they are timed: caught by what the harness sees itself.

Nothing is known here of the roof, under which most would be impossible anyway.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import Job, Limits
from attnbench.schema.outcome import Failed, Measured, Status
from attnbench.schema.problem import Problem
from attnbench.worker.isolate import Isolation

CAUGHT = {
    "ReplaysByPointer": "incorrect",
    "ReplaysByVersion": "incorrect",
    "ReplaysByContent": "unfair",
    "ReplaysByCount": "incorrect",
    "ComputesEverySecondTime": "incorrect",
    "GivesGarbage": "incorrect",
    "GivesZeros": "incorrect",
    "ShrinksItsInputs": "incorrect",
    "WritesIntoItsInputs": "unfair",
    "OnlyAFew": "incorrect",
    "InHalfPrecision": "incorrect",
    "PromisesLazily": "incorrect",
    "GoesOnInAThread": "incorrect or unfair",
    "WorksAheadInAThread": "incorrect or unfair",
    "WorksInAnotherProcess": "unfair",
    "SlowsTheClock": "unfair",
    "ForgesSamples": "unfair",
    "TakesMoreThreads": "unfair",
    "ChangesTheDefaultDtype": "unfair",
    "ChangesTheGradMode": "unfair",
    "TurnsAutocastOn": "unfair",
    "RoundsProducts": "unfair",
}
REGULAR = {
    # by comparing outputs of timed calls; by inputs that were changed, or read
    *("ReplaysByCount", "ShrinksItsInputs", "WritesIntoItsInputs", "ReplaysByContent"),
    # by work that goes on in a thread, in a process
    *("GoesOnInAThread", "WorksInAnotherProcess"),
    # by another process' clock, by the sum of the samples, by a setting that changed
    *("SlowsTheClock", "ForgesSamples", "TakesMoreThreads"),
    # with a backward
    "ReplaysGradients",
}
"""One or two of each way in which they are caught; the others where there is time."""


def caught(names: Iterable[str]) -> list[Any]:
    return [pytest.param(name, marks=[] if name in REGULAR else pytest.mark.slow) for name in names]


@pytest.fixture(scope="module")
def warm() -> Iterator[Isolation]:
    """A server whose processes find the fixtures."""
    with Isolation(packages=Path(__file__).parents[1] / "plugins") as isolation:
        yield isolation


def outcome_of(warm: Isolation, method: str, workload: Workload = Workload.FORWARD, seconds: float = 0.4) -> object:
    problem = Problem(N=1024, B=2, H=2, D=16, causal=True)
    cell = Cell(method=method, problem=problem, workload=workload, device="cpu")
    return warm.ask(Job(cell=cell, seed=3, limits=Limits(seconds=seconds)), 60)[0]


@pytest.mark.parametrize("name", caught(CAUGHT))
def test_a_cheat_is_caught_and_its_times_are_kept(warm: Isolation, name: str) -> None:
    # a replay needs some calls to be told, and a forger more than the tenth of a second that a busy machine may lose
    long = {"ForgesSamples": 2.0, "ReplaysByContent": 1.0, "ReplaysByCount": 1.0}
    outcome = outcome_of(warm, f"cheats:{name}", seconds=long.get(name, 0.4))
    assert isinstance(outcome, Failed)
    assert outcome.status.value in CAUGHT[name].split(" or "), outcome.reason
    assert len(outcome.samples["time"].values) >= 1


@pytest.mark.parametrize("name", caught(["ReplaysGradients", "OnlyAFew", "InHalfPrecision"]))
def test_a_cheat_with_a_backward_is_caught(warm: Isolation, name: str) -> None:
    outcome = outcome_of(warm, f"cheats:{name}", Workload.FORWARD_BACKWARD, 0.8)
    assert isinstance(outcome, Failed)
    assert outcome.status is Status.INCORRECT, outcome.reason


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("ReplaysGradients", "incorrect"),
        ("KeepsGradients", "unfair"),
        pytest.param("SpoilsItsGraph", "incorrect", marks=pytest.mark.slow),
    ],
)
def test_a_cheat_whose_backward_alone_is_timed_is_caught(warm: Isolation, name: str, status: str) -> None:
    outcome = outcome_of(warm, f"cheats:{name}", Workload.BACKWARD, 0.8)
    assert isinstance(outcome, Failed)
    assert outcome.status.value == status, outcome.reason


def test_an_honest_attention_beside_them_is_timed(warm: Isolation) -> None:
    assert isinstance(outcome_of(warm, "plain:Plain"), Measured)
    assert isinstance(outcome_of(warm, "plain:Plain", Workload.FORWARD_BACKWARD), Measured)
    assert isinstance(outcome_of(warm, "plain:Plain", Workload.BACKWARD), Measured)
