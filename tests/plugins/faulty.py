"""Attentions that go wrong, each in one way, in every cell but the small one of the check (or only there)."""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from itertools import count
from typing import Any, NoReturn

import torch
from plain import Plain
from torch import Tensor

from attnbench.api import Attention, Cell, Cost, Problem, Scalar, Workload


class Late(Plain):
    """Goes wrong in a cell that is not the small one of the check."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if self.late:
            self.go_wrong()
        return super().forward(q, k, v)

    def go_wrong(self) -> None:
        raise NotImplementedError


def late(fault: Callable[[], object]) -> type[Late]:
    """A class that goes wrong so."""
    return type("Late", (Late,), {"go_wrong": lambda _: fault(), "__module__": __name__})


def throw(error: Exception) -> NoReturn:
    raise error


Segfaults = late(lambda: ctypes.string_at(0))
Aborts = late(os.abort)
Killed = late(lambda: os.kill(os.getpid(), signal.SIGKILL))
Exits = late(lambda: os._exit(3))
StickyCudaError = late(lambda: throw(RuntimeError("CUDA error: an illegal memory access was encountered")))
OutOfDeviceMemory = late(lambda: throw(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 512.00 GiB.")))
AllocatesWithoutEnd = late(lambda: [torch.ones(2**26, dtype=torch.uint8) for _ in count()])
RaisesMemoryError = late(lambda: throw(MemoryError()))
HasNoRoomForWords = late(lambda: throw(RuntimeError("[enforce fail a")))


class Raises(Plain):
    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if self.late:
            raise ValueError("this method is out of order")
        return super().forward(q, k, v)


def raising(error: Callable[[], Exception]) -> type[Plain]:
    """A class that raises this in its check already."""
    return type("Raises", (Plain,), {"forward": lambda *_: throw(error()), "__module__": __name__})


class SpeechlessError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


RaisesInItsCheck = raising(lambda: ValueError("this method is out of order"))
RaisesWithoutWords = raising(SpeechlessError)
RaisesNothingButSpace = raising(lambda: ValueError(" \n "))
RaisesHalfALetter = raising(lambda: ValueError("half a letter: \ud800"))


class OutOfWordsError(MemoryError):
    """It takes memory to tell what happened, as lines of source code do in a traceback."""

    def __str__(self) -> str:
        return str(len(bytearray(2**27)))


class UsesUpItsMemory(Late):
    """Holds all of its memory at the moment at which the answer is written."""

    def go_wrong(self) -> None:
        hoard = []
        try:
            while True:
                hoard.append(bytes(2**26))
        except MemoryError:
            raise OutOfWordsError from None


class Hangs(Late):
    """Ignores SIGTERM, and leaves a child in its group and one that left it."""

    def go_wrong(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        leave_children()
        time.sleep(3600)


class LeavesChildren(Late):
    """Works, but leaves processes behind."""

    def go_wrong(self) -> None:
        if not hasattr(self, "left"):
            self.left = True
            leave_children()


def leave_children() -> None:
    for leaves_its_group in (False, True):
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            if leaves_its_group:
                os.setsid()
            os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(3600)", "attnbench-test-orphan"])


def spoiling(spoil: Callable[[Tensor], Tensor]) -> type[Plain]:
    """A class that makes this of its output."""

    def forward(method: Plain, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return spoil(Plain.forward(method, q, k, v))

    return type("Spoils", (Plain,), {"forward": forward, "__module__": __name__})


NaNs = spoiling(lambda o: o * float("nan"))
WrongShape = spoiling(lambda o: o[:, :, 1:])
WrongValues = spoiling(lambda o: o * 1.001)


class WrongGradient(Plain):
    """Right values, and a gradient of k that is not theirs."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        extra = 0.01 * k.sum()
        return super().forward(q, k, v) + (extra - extra.detach())


class HasNoMask(Plain):
    """Sees later keys, whatever the problem says."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        o: Tensor = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v
        return o


class Leaks(Plain):
    """Looks ahead, and so does its reference: only the causality check can tell."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return super().forward(q, k, v) + v.mean(2, keepdim=True)

    def reference(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return self.forward(q, k, v)


class Declines(Plain):
    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        return "only float64 is written" if cell.problem.dtype != "float64" else None


class NeedsAPackage(Plain):
    requires = ("a-package-that-nobody-has>=2",)


class ChangesTheWorld(Plain):
    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        os.chdir("/")
        os.environ.clear()
        sys.path.clear()
        return super().forward(q, k, v)


class Chatters(Late):
    """Prints 100 MB."""

    def go_wrong(self) -> None:
        if not hasattr(self, "said"):
            self.said = True
            for _ in range(100):
                os.write(1, b"x" * 2**20)


class Slow(Plain):
    """A call takes longer than half of a small budget, at N = 256."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if self.problem.N == 256:
            time.sleep(0.6)
        return super().forward(q, k, v)


class Unfinished(Attention):
    """Only a forward."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return v


class WritesNonsense(Plain):
    """What it says of itself is no text."""

    paper = "half a letter: \ud800"


class CostsNothingKnown(Plain):
    """Its cost is no number, and nobody looked when it was made."""

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        known: dict[str, Any] = dict.fromkeys(Cost.model_fields, float("nan"))
        return Cost.model_construct(**known)


class RefusesWithANumber(Plain):
    """Its reason is no text."""

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        return 7  # type: ignore[return-value]
