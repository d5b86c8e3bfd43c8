"""What a wrong output is like: another scale, no mask, or numbers that are none; in words for whoever wrote the method.

B batch, H heads, N tokens, D query/key width, M value width.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attnbench.api import Attention
from attnbench.workloads.deviation import tolerance
from attnbench.workloads.setting import Setting, build

_SCALES: dict[str, Callable[[int], float]] = {
    "they are not multiplied by 1/sqrt(D)": math.sqrt,
    "they are multiplied by 1/sqrt(D) once too often": lambda D: 1 / math.sqrt(D),
    "exp2 is taken of them without log2(e)": lambda _: math.log(2),
    "they are multiplied by log2(e), and exp is taken": lambda _: math.log2(math.e),
}
"""What it means where the scores of queries and keys are so many times as large as they should be, by their width D."""


def likeness(setting: Setting, exact: Attention, o: Tensor, right: Tensor, keywords: dict[str, Any], seed: int) -> str:
    """What the output [B, H, N, M] is instead of what is right, or nothing where it is like nothing that is tried here.

    `exact` is the method in float64: its own definition is tried, of other inputs and of other problems.
    """
    o = o.double()
    if count := int((~o.isfinite()).sum()):
        first = (~o.isfinite()).nonzero()[0].tolist()
        return f"{count:,} of its {o.numel():,} numbers are not finite, the first at {first} of [B, H, N, M]"
    allowed = tolerance(setting.cell)
    length = float(right.square().sum())
    if _apart(o, right) <= allowed or length == 0:
        return ""
    times = float((o * right).sum()) / length
    if _apart(o, times * right) <= allowed:
        return f"every number is {times:.4g} times what is right"
    for words, make in _others(setting, exact, keywords, seed):
        try:
            other = make().detach()
        except Exception:  # noqa: BLE001, S112 - a definition need not take what it is tried with
            continue
        if _apart(o, other) <= allowed:
            return f"it is what comes of {words}"
    return ""


def _others(
    setting: Setting, exact: Attention, keywords: dict[str, Any], seed: int
) -> Iterator[tuple[str, Callable[[], Tensor]]]:
    """Definitions that are easily mistaken for the right one."""
    q, *others = (x.detach().double() if x.is_floating_point() else x for x in setting.inputs)
    p = setting.cell.problem
    for words, scale in _SCALES.items():
        factor = scale(p.D)
        yield f"scores {factor:.4g} times as large: {words}", partial(exact.reference, factor * q, *others, **keywords)
    if "key_mask" in keywords:
        everything = {**keywords, "key_mask": torch.ones_like(keywords["key_mask"])}
        yield "keys that the padding hides: its mask is missing", partial(exact.reference, q, *others, **everything)
    other = setting.cell.model_copy(update={"problem": p.model_copy(update={"causal": not p.causal})})
    words = "seeing later keys: the causal mask is missing" if p.causal else "a causal mask, which this problem has not"
    yield words, lambda: build(other, seed).double().reference(q, *others, **keywords)


def _apart(o: Tensor, other: Tensor) -> float:
    """‖o - o'‖ / ‖o'‖."""
    return float((o - other).norm() / other.norm())
