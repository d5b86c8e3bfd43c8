"""The share of a forward that a method spends on its discrete choices: buckets, codes, blocks, keys."""

import math
import statistics
from collections.abc import Callable
from time import perf_counter

from attnbench.api import Tier
from attnbench.measure import devices
from attnbench.measure.clock import Clock
from attnbench.schema.cell import Workload
from attnbench.schema.noun import Facts
from attnbench.workloads.setting import Setting, keywords_of

_ROUNDS = 9
_APART = 1 / 3
"""The share of a forward by which its two parts, choosing and the rest, may miss the whole."""


def selection(setting: Setting, clock: Clock, median: float, limit: float) -> tuple[float | None, Facts]:
    """Return the share of a forward spent on choosing; None where there is none, with a fact why if the method makes choices.

    The choice, a forward that is given it, and a whole forward are timed in turns, after all samples were taken.
    `median` is the time of a call, and after `limit` seconds no further round begins. Only where choice and rest add up to
    the whole is `choose` what the forward does: some packages tell their choices only by attending once. That is judged by
    the fastest calls, for a busy machine makes calls slower and never faster.
    """
    method, inputs = setting.method, setting.inputs
    if setting.cell.workload is not Workload.FORWARD:
        return None, {}
    try:
        choices = method.choose(*inputs)
        if choices is None:
            return None, {}
        if method.tier is Tier.COMPILED:
            return None, {"selection_reason": "what is compiled chooses within its graph, and not by itself"}
        keywords = keywords_of(choices, setting.key_mask)
        # a forward that is given its choices may compile other kernels
        method(*inputs, **keywords)
        if setting.cell.clock.replays:
            # a choice may wait for the device, which a graph cannot hold
            clock = devices.clock(setting.cell.device, "wall")
        batch = max(1, math.ceil(clock.min_sample / median))
        calls: dict[str, Callable[[], object]] = {
            "choice": lambda: method.choose(*inputs),
            "rest": lambda: method(*inputs, **keywords),
            "whole": setting.forward,
        }
        seconds: dict[str, list[float]] = {name: [] for name in calls}
        begin = perf_counter()
        while not seconds["whole"] or (len(seconds["whole"]) < _ROUNDS and perf_counter() - begin < limit):
            for name, call in calls.items():
                seconds[name].append(clock.sample(call, batch))
    except (RuntimeError, MemoryError) as error:
        first = f"{type(error).__name__}: {error}".splitlines()[0]
        return None, {"selection_reason": f"the choice cannot be timed by itself: {first}"}
    together = (min(seconds["choice"]) + min(seconds["rest"])) / min(seconds["whole"])
    facts: Facts = {"selection_and_rest": together}
    if abs(together - 1) > _APART:
        facts["selection_reason"] = (
            f"its choice and a forward that is given it take {together:.0%} of a whole forward together: "
            "either its choice by itself is not what the forward does, or the machine was disturbed"
        )
        return None, facts
    return statistics.median(seconds["choice"]) / statistics.median(seconds["whole"]), facts
