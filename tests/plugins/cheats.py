"""Attentions that are right wherever they are checked and want to look fast where they are timed.

`late` of Plain tells the cell that is timed from those of the checks; here it is a longer one.
"""

import importlib
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import torch
from plain import Plain
from torch import Tensor


class Cheat(Plain):
    """Honest up to 400 tokens."""

    calls = 0

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if self.problem.N <= 400:
            return super().forward(q, k, v)
        self.calls += 1
        return self.cheat(q, k, v)

    def honest(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return Plain.forward(self, q, k, v)

    def cheat(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        raise NotImplementedError


class Replays(Cheat):
    """Computes once for each key."""

    def __init__(self, problem: Any) -> None:
        super().__init__(problem)
        self.kept: dict[object, Tensor] = {}

    def key(self, q: Tensor) -> object:
        raise NotImplementedError

    def cheat(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if (key := self.key(q)) not in self.kept:
            self.kept[key] = self.honest(q, k, v)
        return self.kept[key]


def replaying(key: Callable[[Cheat, Tensor], object]) -> type[Replays]:
    """A class that computes once for each of these keys."""
    return type("Replays", (Replays,), {"key": key, "__module__": __name__})


# another output only where the inputs lie elsewhere; where torch says that they were written to; where some numbers are others
ReplaysByPointer = replaying(lambda _, q: q.data_ptr())
ReplaysByVersion = replaying(lambda _, q: (q.data_ptr(), q._version))
ReplaysByContent = replaying(lambda _, q: tuple(q[0, 0, :: q.shape[2] // 4, 0].tolist()))
# computes three times; every second time
ReplaysByCount = replaying(lambda method, _: min(method.calls, 3))
ComputesEverySecondTime = replaying(lambda method, _: method.calls // 2)


def cheating(cheat: Callable[[Cheat, Tensor, Tensor, Tensor], Tensor]) -> type[Cheat]:
    """A class that does this where it is timed."""
    return type("Cheats", (Cheat,), {"cheat": cheat, "__module__": __name__})


# memory as it is found; a plausible mean
GivesGarbage = cheating(lambda method, q, k, v: method.honest(q, k, v) if method.calls == 1 else torch.empty_like(v))
GivesZeros = cheating(lambda _, q, k, v: torch.zeros_like(v))
# sees the first keys only; of float32 only the name is left
OnlyAFew = cheating(lambda _, q, k, v: (q @ k[:, :, :16].mT / q.shape[-1] ** 0.5).softmax(-1) @ v[:, :, :16])
InHalfPrecision = cheating(lambda method, *inputs: method.honest(*(x.bfloat16() for x in inputs)).float())


class ShrinksItsInputs(Cheat):
    """What is timed is short."""

    def cheat(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        for x in (q, k, v):
            x.data = x.data[:, :, :64]
        return self.honest(q, k, v)


class WritesIntoItsInputs(Cheat):
    """After the first call the values are 0, and so is the output."""

    def cheat(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        v.zero_()
        return torch.zeros_like(v)


class Promise(Tensor):
    """Computed when somebody looks."""

    make: Callable[[], Tensor]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = [x.make() if isinstance(x, Promise) and "make" in vars(x) else x for x in args]
        with torch._C.DisableTorchFunctionSubclass():
            return func(*made, **(kwargs or {}))


class PromisesLazily(Cheat):
    """Gives a tensor that has not been computed yet."""

    def cheat(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        promise = torch.empty_like(v).as_subclass(Promise)
        promise.make = lambda: self.honest(q, k, v)
        return promise


class GoesOnInAThread(Cheat):
    """Fills its output in later."""

    def cheat(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        o = torch.empty_like(v)
        threading.Thread(target=lambda: o.copy_(self.honest(q, k, v))).start()
        return o


class WorksAheadInAThread(Cheat):
    """A thread computes the same again and again; a call takes what there is."""

    o: Tensor | None = None

    def cheat(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if self.o is None:
            self.o = self.honest(q, k, v)
            threading.Thread(target=self.again, args=(q, k, v), daemon=True).start()
        return self.o.clone()

    def again(self, q: Tensor, k: Tensor, v: Tensor) -> None:
        while True:
            self.o = self.honest(q, k, v)


class WorksInAnotherProcess(Cheat):
    """Leaves the sums to a process that nobody looks at."""

    shared: Tensor | None = None

    def cheat(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if self.shared is None:
            self.shared = self.honest(q, k, v).share_memory_()
            if os.fork() == 0:
                while os.getppid() != 1:
                    self.shared.copy_(self.honest(q, k, v))
                os._exit(0)
        return self.shared.clone()


class SlowsTheClock(Cheat):
    """Seconds last longer than they do."""

    def __init__(self, problem: Any) -> None:
        super().__init__(problem)
        for module in ("time", "attnbench.measure.clock", "attnbench.measure.loop", "attnbench.workloads.timing"):
            for name in ("perf_counter", "perf_counter_ns"):
                setattr(importlib.import_module(module), name, slow(getattr(time, name)))

    def cheat(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return self.honest(q, k, v)


def slow(clock: Callable[[], float]) -> Callable[[], float]:
    begin = clock()
    return lambda: begin + (clock() - begin) / 10


class ForgesSamples(Cheat):
    """The harness is told what it wants to hear."""

    def cheat(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        from attnbench.measure.clock import WallClock

        true = WallClock.sample
        if true.__module__ != __name__:

            def sample(clock: WallClock, *given: Any) -> float:
                return true(clock, *given) / 10

            WallClock.sample = sample  # type: ignore[method-assign, assignment]
        return self.honest(q, k, v)


def changing(change: Callable[[], object]) -> type[Cheat]:
    """A class that is honest, but for a setting that it changes at each call."""

    def cheat(method: Cheat, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        change()
        return method.honest(q, k, v)

    return cheating(cheat)


# all cores, whatever it was given
TakesMoreThreads = changing(lambda: torch.set_num_threads(torch.get_num_threads() + 1))
# what comes after is in half precision, or keeps graphs where there was inference
ChangesTheDefaultDtype = changing(lambda: torch.set_default_dtype(torch.bfloat16))
ChangesTheGradMode = changing(lambda: torch.set_grad_enabled(True))
# products are rounded from the second call on
TurnsAutocastOn = changing(lambda: torch.set_autocast_enabled("cpu", True))
RoundsProducts = changing(lambda: torch.set_float32_matmul_precision("medium"))


class KeepsGradients(Cheat):
    """Gradients are computed once for each forward, however often they are taken."""

    forever = spoils = False
    kept: tuple[Tensor, ...] | None = None

    def cheat(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        o: Tensor = Kept.apply(self, q, k, v)  # type: ignore[no-untyped-call]
        return o


class ReplaysGradients(KeepsGradients):
    """The forward is honest; gradients are those of before."""

    forever = True


class SpoilsItsGraph(KeepsGradients):
    """Gradients are right the first time that they are taken, and 0 from then on."""

    spoils = True


class Kept(torch.autograd.Function):
    """Differentiates once: its method keeps the gradients, or they lie beside what was saved for them."""

    @staticmethod
    def forward(ctx: Any, method: KeepsGradients, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        ctx.method, ctx.kept = method, None
        ctx.save_for_backward(q, k, v)
        return method.honest(q, k, v)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        keeper = ctx.method if ctx.method.forever else ctx
        if keeper.kept is not None:
            return None, *((torch.zeros_like(x) if ctx.method.spoils else x) for x in keeper.kept)
        with torch.enable_grad():
            inputs = [x.detach().requires_grad_() for x in ctx.saved_tensors]
            keeper.kept = torch.autograd.grad(ctx.method.honest(*inputs), inputs, gradients[0])
        return None, *keeper.kept
