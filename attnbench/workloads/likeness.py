"""Guessing why an output is wrong, for the author of the method: another scale, a missing mask, or NaN.

B batch, H heads, N tokens, D query/key width, M value width.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attnbench.api import Attention
from attnbench.workloads.holding import distance, tolerance
from attnbench.workloads.setting import Setting, build

_SCALES: dict[str, Callable[[int], float]] = {
    "they are not multiplied by 1/sqrt(D)": math.sqrt,
    "they are multiplied by 1/sqrt(D) once too often": lambda D: 1 / math.sqrt(D),
    "exp2 is taken of them without log2(e)": lambda _: math.log(2),
    "they are multiplied by log2(e), and exp is taken": lambda _: math.log2(math.e),
}
"""What it means if the scores of queries and keys are larger by a factor that may depend on their width D."""


def likeness(setting: Setting, exact: Attention, o: Tensor, right: Tensor, keywords: dict[str, Any], seed: int) -> str:
    """Say what the output [B, H, N, M] is instead of what is right; empty where it is like nothing that is tried here.

    `exact` is the method in float64, whose definition is tried on other inputs and for another problem.
    """
    o = o.double()
    if count := int((~o.isfinite()).sum()):
        first = (~o.isfinite()).nonzero()[0].tolist()
        return f"{count:,} of its {o.numel():,} numbers are not finite, the first at {first} of [B, H, N, M]"
    allowed = tolerance(setting.cell)
    length = float(right.square().sum())
    if distance(o, right) <= allowed or length == 0:
        return ""
    times = float((o * right).sum()) / length
    if distance(o, times * right) <= allowed:
        return f"every number is {times:.4g} times what is right"
    q, *others = (x.detach().double() if x.is_floating_point() else x for x in setting.inputs)
    p = setting.cell.problem
    # definitions that are easily mistaken for the right one
    tried: dict[str, Callable[[], Tensor]] = {}
    for words, scale in _SCALES.items():
        factor = scale(p.D)
        tried[f"scores {factor:.4g} times as large: {words}"] = partial(exact.reference, factor * q, *others, **keywords)
    if "key_mask" in keywords:
        everything = {**keywords, "key_mask": torch.ones_like(keywords["key_mask"])}
        tried["keys that the padding hides: its mask is missing"] = partial(exact.reference, q, *others, **everything)
    masked = setting.cell.reshaped(causal=not p.causal)
    words = "seeing later keys: the causal mask is missing" if p.causal else "a causal mask, which this problem has not"
    tried[words] = lambda: build(masked, seed).double().reference(q, *others, **keywords)
    for words, make in tried.items():
        try:
            other = make().detach()
        except Exception:  # noqa: BLE001, S112 - a definition may refuse what it is tried with
            continue
        if distance(o, other) <= allowed:
            return f"it is what comes of {words}"
    return ""
