"""The training loop: a fixed number of timed updates, with judging in between; and all that is needed to resume it."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch.utils import deterministic

from attnbench.measure import devices
from attnbench.measure.clock import Clock
from attnbench.schema.training import Training
from attnbench.training.tasks import Batch
from attnbench.training.transformer import Transformer
from attnbench.training.update import judge, optimiser_of, take


@dataclass
class Curve:
    """The loss and the score of the held-out sequences, after how many updates and seconds of training.

    The score is the accuracy, or of speech the error rate; of pixels it is NaN.
    """

    updates: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)


@dataclass
class Progress:
    """The model, its optimiser, the generator of the next batches, and what was measured so far."""

    model: Transformer
    optimiser: torch.optim.RAdam
    order: torch.Generator
    seconds: list[float] = field(default_factory=list)
    """The seconds of each update."""
    curve: Curve = field(default_factory=Curve)
    data: str = ""
    """The name of the data, with a digest where it is read from a file."""

    @classmethod
    def begin(cls, model: Transformer, seed: int, data: str = "") -> Self:
        """Return the progress before the first update; the order of batches is the same for all methods."""
        return cls(model, optimiser_of(model), torch.Generator().manual_seed(seed), data=data)

    @property
    def updates(self) -> int:
        """The number of updates that were made."""
        return len(self.seconds)

    @property
    def finished(self) -> bool:
        """Say whether all updates were made."""
        return self.updates >= self.model.plan.updates


Keep = Callable[[Progress], None]
Draw = Callable[[int, torch.Generator], Batch]


class OverBudgetError(Exception):
    """The updates take longer than a cell may; the message says how many were made."""


class DivergedError(ArithmeticError):
    """The loss is not a finite number any more; the message says after which update."""


def train(progress: Progress, draw: Draw, held_out: Batch, seconds: float, keep: Keep) -> None:
    """Train until all updates are made; `keep` is called after each of them.

    `seconds` limits the time of all updates, from the very first on; making batches and judging do not count. Raises
    OverBudgetError, DivergedError, and what the method raises.
    """
    device, plan = progress.model.cell.device, progress.model.plan
    kept = held_out.to(device)
    clock, points, spent = devices.clock(device, "wall"), evaluation_points(plan), sum(progress.seconds)
    with repeatable(device), torch.enable_grad():
        progress.model.train()
        if not progress.curve.updates:
            _look(progress, kept)
        while not progress.finished:
            batch = draw(progress.model.cell.problem.B, progress.order).to(device)
            spent += _update(progress, batch, clock)
            if progress.updates in points:
                _look(progress, kept)
            keep(progress)
            if spent > seconds and not progress.finished:
                took = f"{progress.updates} of {plan.updates} updates took {spent:.3g} s"
                raise OverBudgetError(f"{took}, above the {seconds:g} s of this cell's budget")


@contextmanager
def repeatable(device: str) -> Iterator[None]:
    """Make sums over indices in one order, so that the same seed gives the same numbers; on a CPU, for on a GPU it costs time.

    The number of threads is not set: with another one, the parts of a sum are others.
    """
    if device.startswith("cuda"):
        yield
        return
    options: Any = deterministic
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    filled = options.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    # filling fresh memory would cost time and is not needed
    options.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        options.fill_uninitialized_memory = filled


def evaluation_points(plan: Training) -> frozenset[int]:
    """Return the updates after which held-out sequences are judged: evenly spaced, including the last."""
    return frozenset(max(1, round(i * plan.updates / plan.evaluations)) for i in range(1, plan.evaluations + 1))


def _update(progress: Progress, batch: Batch, clock: Clock) -> float:
    """Make one update and return its seconds."""
    losses, plan = [], progress.model.plan
    for group in progress.optimiser.param_groups:
        group["lr"] = plan.rate_at(progress.updates)
    taken = clock.sample(lambda: losses.append(take(progress.model, progress.optimiser, batch)), 1)
    progress.seconds.append(taken)
    _refuse_no_number(float(losses[0]), progress.updates, "training")
    return taken


def _look(progress: Progress, held_out: Batch) -> None:
    """Judge the held-out sequences and add a point to the curve."""
    loss, score = judge(progress.model, held_out)
    _refuse_no_number(loss, progress.updates, "held-out")
    curve = progress.curve
    curve.updates.append(float(progress.updates))
    curve.seconds.append(sum(progress.seconds))
    curve.losses.append(loss)
    curve.scores.append(score)


def _refuse_no_number(loss: float, update: int, which: str) -> None:
    if not math.isfinite(loss):
        raise DivergedError(f"the loss of the {which} sequences is {loss} at update {update}")
