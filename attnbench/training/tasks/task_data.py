"""The data of a task: its alphabet, sequences, what is to be said at each position, and the score of guessing.

Suffixes: B sequences, N tokens.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from attnbench.schema.training import PIXELS, Task, Training

# the seeds of replicates are below 2^31, so none of them draws the held-out sequences
_HELD_OUT_SEED = 0x9E3779B9


@dataclass(frozen=True)
class Batch:
    """The tokens that a model reads, what it is to say at each, and where that counts; all [B, N]. Tasks make it on the CPU.

    Tokens and targets are int64, `judged` is bool. Where nothing is judged, the target is 0 and means nothing. Tokens of
    speech are frames, float [B, N, C], and its targets stand from the left on, whatever the frames in which they are heard.
    """

    tokens: Tensor
    targets: Tensor
    judged: Tensor

    def to(self, device: str) -> "Batch":
        """Return the batch on a device."""
        return Batch(self.tokens.to(device), self.targets.to(device), self.judged.to(device))


@dataclass(frozen=True)
class Chance:
    """The best score of the same guess everywhere: nats per judged token, and the share that is right."""

    loss: float
    accuracy: float

    @classmethod
    def uniform(cls, answers: int) -> Self:
        """Return the score where so many answers are equally likely."""
        return cls.frequent(torch.ones(answers))

    @classmethod
    def frequent(cls, counts: Tensor) -> Self:
        """Return the score where answers are as frequent as `counts`: their entropy, and the share of the most frequent."""
        shares = counts.double() / counts.sum()
        return cls(float(torch.special.entr(shares).sum()), float(shares.max()))


@dataclass(frozen=True)
class Alphabet:
    """The tokens 0 … vocabulary - 1, which a model reads. It says a weight for each, or a mixture of logistics for pixels.

    A model of speech reads frames of sound instead; what it says is the blank, 0, or a symbol.
    """

    vocabulary: int
    levels: int | None = None
    """The number of values of a pixel, which are the first tokens; None where tokens are no pixels."""
    start: int | None = None
    """The token that is read before the first one and never said; None where the first token need not be said."""
    channels: int | None = None
    """The numbers of a frame; None where tokens are read."""

    @classmethod
    def without_data(cls, training: Training, N: int) -> Self:
        """Return the alphabet of a model that learns nothing: no data need exist, and N need not be the size of an image."""
        if training.task is Task.PIXELS:
            rows, columns, levels = PIXELS.get(training.images, (0, 0, 256))
            levels = levels if rows * columns == N else 256
            return cls(levels + 1, levels, start=levels)
        letters = 256 if training.task is Task.BYTES else training.symbols
        return cls(letters + 1, start=letters)


def evenly_among(count: int, there: int) -> Tensor:
    """Choose `count` numbers below `there`, or all, spread evenly over them: int64, in rising order."""
    return torch.linspace(0, there - 1, min(count, there), dtype=torch.float64).long()


class TaskData(ABC):
    """Sequences of N tokens, as many as are drawn from a generator, and others that are never trained on."""

    name: str
    """The task and its data; where data is read, with the first eight digits of its SHA-256."""
    alphabet: Alphabet
    """What a model of it reads and says."""
    rows: int | None = None
    columns: int | None = None

    # most tasks know it when they are made
    @cached_property
    def chance(self) -> Chance:
        """The score of a model that has learnt how frequent the answers are, and nothing else."""
        raise NotImplementedError

    @abstractmethod
    def batch(self, B: int, generator: torch.Generator) -> Batch:
        """Draw B sequences, the same ones for the same state of the generator."""

    def held_out(self, count: int) -> Batch:
        """Return held-out sequences, always the same ones, and no more than there are."""
        return self.batch(count, torch.Generator().manual_seed(_HELD_OUT_SEED))


class Continued(TaskData):
    """Rows of values, each of which is to be said from those before it in its row, and the first from the start alone."""

    training: Tensor
    """The rows to train on, uint8 [count, N]; those of a text overlap."""
    rest: Tensor
    """The rows that are held out."""

    def batch(self, B: int, generator: torch.Generator) -> Batch:
        """Draw B of the rows to train on, with replacement."""
        return self._sequences(self.training[torch.randint(len(self.training), (B,), generator=generator)])

    def held_out(self, count: int) -> Batch:
        """Return rows spread evenly over those that are held out."""
        return self._sequences(self.rest[evenly_among(count, len(self.rest))])

    def _sequences(self, row_BN: Tensor) -> Batch:
        targets = row_BN.long()
        tokens = torch.nn.functional.pad(targets[:, :-1], (1, 0), value=self.alphabet.start)
        return Batch(tokens, targets, torch.ones_like(targets, dtype=torch.bool))
