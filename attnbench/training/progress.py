"""Progress: how far a training has come, all that it takes to go on bit for bit."""

from dataclasses import dataclass, field
from typing import Self

import torch

from attnbench.training.transformer import Transformer
from attnbench.training.update import optimiser_of


@dataclass
class Curve:
    """Of the held-out sequences: after how many updates and seconds of training which loss, and which accuracy.

    Of pixels, accuracies are NaN.
    """

    updates: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)

    def add(self, update: int, seconds: float, loss: float, accuracy: float) -> None:
        """One point more."""
        self.updates.append(float(update))
        self.seconds.append(seconds)
        self.losses.append(loss)
        self.accuracies.append(accuracy)


@dataclass
class Progress:
    """The model, its optimiser, what the next batches are drawn by, and what was measured so far."""

    model: Transformer
    optimiser: torch.optim.RAdam
    order: torch.Generator
    seconds: list[float] = field(default_factory=list)
    """Of each update."""
    curve: Curve = field(default_factory=Curve)
    data: str = ""
    """What is learnt, by its name, which has a digest where it is read from a file."""

    @classmethod
    def begin(cls, model: Transformer, seed: int, data: str = "") -> Self:
        """Before the first update; batches come in one order for all methods."""
        return cls(model, optimiser_of(model), torch.Generator().manual_seed(seed), data=data)

    @property
    def updates(self) -> int:
        """How many were made."""
        return len(self.seconds)

    @property
    def finished(self) -> bool:
        """Whether the stopping rule holds."""
        return self.updates >= self.model.plan.updates
