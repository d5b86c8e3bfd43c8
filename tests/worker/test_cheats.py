"""Attentions that are honest where they are checked and cheat where they are timed: caught by what the harness sees itself.

Nothing is known here of the roof, under which most would be impossible anyway.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import Job, Limits
from attnbench.schema.outcome import Failed, Measured
from attnbench.schema.problem import Problem
from attnbench.worker.isolate import Isolation

CAUGHT = {
    "incorrect": (
        *("ReplaysByPointer", "ReplaysByVersion", "ReplaysByCount", "ComputesEverySecondTime", "GivesGarbage", "GivesZeros"),
        *("ShrinksItsInputs", "OnlyAFew", "InHalfPrecision", "PromisesLazily"),
    ),
    "unfair": (
        *("ReplaysByContent", "WritesIntoItsInputs", "WorksInAnotherProcess", "SlowsTheClock", "ForgesSamples"),
        *("TakesMoreThreads", "ChangesTheDefaultDtype", "ChangesTheGradMode", "TurnsAutocastOn", "RoundsProducts"),
    ),
    "incorrect or unfair": ("GoesOnInAThread", "WorksAheadInAThread"),
}
REGULAR = {
    # by comparing outputs of timed calls; by inputs that were changed, or read
    *("ReplaysByCount", "ShrinksItsInputs", "WritesIntoItsInputs", "ReplaysByContent"),
    # by work that goes on in a thread, in a process
    *("GoesOnInAThread", "WorksInAnotherProcess"),
    # by another process' clock, by the sum of the samples, by a setting that changed
    *("SlowsTheClock", "ForgesSamples", "TakesMoreThreads"),
    # with a backward, or that alone
    *("ReplaysGradients", "KeepsGradients"),
}
"""One or two of each way in which they are caught; the others where there is time."""
CASES = [
    *((name, Workload.FORWARD, status) for status, names in CAUGHT.items() for name in names),
    *((name, Workload.FORWARD_BACKWARD, "incorrect") for name in ("ReplaysGradients", "OnlyAFew", "InHalfPrecision")),
    ("ReplaysGradients", Workload.BACKWARD, "incorrect"),
    ("KeepsGradients", Workload.BACKWARD, "unfair"),
    ("SpoilsItsGraph", Workload.BACKWARD, "incorrect"),
]


@pytest.fixture(scope="module")
def warm() -> Iterator[Isolation]:
    """A server whose processes find the fixtures."""
    with Isolation(packages=Path(__file__).parents[1] / "plugins") as isolation:
        yield isolation


def outcome_of(warm: Isolation, method: str, workload: Workload, seconds: float = 0.4) -> object:
    cell = Cell(method=method, problem=Problem(N=1024, B=2, H=2, D=16, causal=True), workload=workload, device="cpu")
    return warm.ask(Job(cell=cell, seed=3, limits=Limits(seconds=seconds)), 60)[0]


@pytest.mark.parametrize(
    ("name", "workload", "status"),
    [pytest.param(*case, marks=[] if case[0] in REGULAR else pytest.mark.slow) for case in CASES],
)
def test_a_cheat_is_caught_and_its_times_are_kept(warm: Isolation, name: str, workload: Workload, status: str) -> None:
    # a replay needs some calls to be told, and a forger more than the tenth of a second that a busy machine may lose
    long = {"ForgesSamples": 2.0, "ReplaysByContent": 1.0, "ReplaysByCount": 1.0}
    seconds = long.get(name, 0.4) if workload is Workload.FORWARD else 0.8
    outcome = outcome_of(warm, f"cheats:{name}", workload, seconds)
    assert isinstance(outcome, Failed)
    assert outcome.status.value in status.split(" or "), outcome.reason
    assert len(outcome.samples["time"].values) >= 1


def test_an_honest_attention_beside_them_is_timed(warm: Isolation) -> None:
    for workload in (Workload.FORWARD, Workload.FORWARD_BACKWARD, Workload.BACKWARD):
        assert isinstance(outcome_of(warm, "plain:Plain", workload), Measured)
