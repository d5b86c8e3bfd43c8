"""Comparing what a method gave with its definition: rows of the output, and gradients of a few of them.

Rounding errors are in proportion to the length of a row, and rows of one output differ in length a hundredfold: a mean over
many keys is short. One bound for all rows, in proportion to the longest, would allow any error in short rows.
B samples, H heads, N tokens, n rows, M value width, C width of any row.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from attnbench.schema.cell import Cell, Precision
from attnbench.schema.outcome import Status
from attnbench.schema.problem import DType
from attnbench.workloads.setting import Setting, unique
from attnbench.workloads.truth import Place, Truth, tokens

_OWN_ERROR, _MOST = 8.0, 0.5
"""How many times as far off as the definition when it is rounded a row may be, and the most that this excuses."""
_ROUNDING = {DType.FLOAT64: 1e-9, DType.FLOAT32: 5e-5, DType.FLOAT16: 5e-3, DType.BFLOAT16: 3e-2}
"""How far a row may be off in any case: a few times the error of faithful implementations."""
_ROUNDED_PRODUCTS = {Precision.HIGHEST: 0.0, Precision.HIGH: 1e-2, Precision.MEDIUM: 5e-2}
"""How far a row may be off where torch may round the products of float32."""
_NUMBERS = 64
"""The width from which the length of a row does not depend on luck: narrower rows are judged by the length of several."""
_TOKENS_OF_GRADIENTS = 8


def tolerance(cell: Cell) -> float:
    """Return how far a row of this cell may be off, whatever the definition's own error is."""
    dtype = cell.problem.dtype
    return max(_ROUNDING[dtype], _ROUNDED_PRODUCTS[cell.matmul_precision] if dtype is DType.FLOAT32 else 0.0)


def deviations(got: Tensor, want: Tensor, least: float = 0.0) -> Tensor:
    """Return ‖got - want‖ / ‖want‖ of each row, [n, C] both -> float64 [n]; infinite for NaN, or where 0 was right.

    No row is taken for shorter than `least`.
    """
    want = want.detach().double()
    squares = want.square().sum(-1)
    if want.shape[-1] < _NUMBERS:
        # the length of a narrow row is the root mean square over it and its neighbours
        together = min(-(-_NUMBERS // want.shape[-1]) // 2 * 2 + 1, 2 * len(want) + 1)
        squares = F.avg_pool1d(squares[None], together, 1, together // 2, count_include_pad=False).squeeze(0)
    error = (got.detach().double() - want).norm(dim=-1)
    share = torch.where(error == 0, 0.0, error / squares.sqrt().clamp(min=least))
    return share.nan_to_num(nan=torch.inf, posinf=torch.inf)


def excused(off: Tensor, allowed: float, rounded: Iterable[Tensor]) -> Tensor:
    """Return how far each row may be off: as `allowed`, or eight times as far as the definition itself when it is rounded.

    Such errors of the definition are asked for one after the other, only until they excuse each row that is `off` so far.
    """
    bound = torch.full_like(off, allowed)
    for own in rounded if bool((off > bound).any()) else ():
        bound = torch.maximum(bound, (_OWN_ERROR * own).nan_to_num(nan=0.0, posinf=0.0).clamp(max=_MOST))
        if bool((off <= bound).all()):
            break
    return bound


class WrongError(Exception):
    """The result of a call is wrong, or its time is not that of honest work; `status` says which, the message how."""

    def __init__(self, reason: str, status: Status = Status.INCORRECT) -> None:
        super().__init__(reason)
        self.status = status


def hold_rows(setting: Setting, truth: Truth, place: Place, got: Sequence[Tensor], what: str = "output") -> Tensor:
    """Return how far each row of these outputs, [n, M] each, is off at a place, one after the other.

    Raises WrongError where a row is too far off, and what the truth raises.
    """
    want = truth.rows(place).detach()
    each = torch.stack([deviations(rows, want) for rows in got])
    off = each.amax(0)
    rounded = (deviations(other.rows(place).detach(), want) for other in truth.rounded())
    bound = excused(off, tolerance(setting.cell), rounded)
    worst = int((off / bound).argmax())
    if off[worst] > bound[worst]:
        where = f"in row {place.at[worst]} of head {place.h}, {setting.shape_in_words}"
        raise WrongError(f"{what} {_is_off(off[worst], bound[worst])}, {where}")
    return each.flatten()


def weigh(g: Tensor, heads: Sequence[Place], span: int, source: random.Random) -> list[tuple[Place, Tensor]]:
    """Set dL/do [B, H, N, M] to zero except in a few late rows of these heads, whose gradients no early row outweighs.

    Returns the rows, and dL/do there, [n, M] each.
    """
    weighed, N = [], g.shape[2]
    g.data.zero_()
    for head in heads:
        at = tokens(N, span, _TOKENS_OF_GRADIENTS, source, N // 2)
        w = torch.randn(len(at), g.shape[3], generator=torch.Generator().manual_seed(source.getrandbits(31))).to(g)
        g.data[head.b, head.h, list(at)] = w
        weighed.append((Place(head.b, head.h, at), w))
    return weighed


def hold_gradients(
    setting: Setting, truth: Truth, weighed: Sequence[tuple[Place, Tensor]], got: Sequence[Tensor], source: random.Random
) -> Tensor:
    """Return how far the gradients of these rows are off, for each head of an input that they reach and each parameter.

    `got` is in the order of `setting.leaves`. Raises WrongError, and what the truth raises.
    """
    insist_on_reach(setting, weighed, got, source)
    inputs, allowed = unique(setting.inputs), tolerance(setting.cell)
    at, weights = [place for place, _ in weighed], [w for _, w in weighed]
    wanted, of_parameters = truth.gradients(at, weights)
    numbers = {id(x): number for number, x in enumerate(inputs)}
    own = [got[numbers[id(setting.inputs[i])]][b, h] for i, b, h in wanted]
    names = [f"gradient of {setting.names[i]}" for i, _, _ in wanted]
    names += [f"gradient of {name}" for name, _ in setting.method.named_parameters()]
    pairs = list(zip([*own, *got[len(inputs) :]], [*wanted.values(), *of_parameters], strict=True))
    # of what is 0 by definition, float64 leaves rounding errors
    least = torch.finfo(torch.float32).eps * max(float(want.norm()) for _, want in pairs)
    off = torch.cat([_whole(g, want, least) for g, want in pairs])

    def rounded(other: Truth) -> Tensor:
        near, near_parameters = other.gradients(at, weights)
        # a part that was read for other rows only has no gradient from these
        own = [near.get(part, torch.zeros_like(want)) for part, want in wanted.items()]
        return torch.cat([_whole(g, want, least) for g, (_, want) in zip([*own, *near_parameters], pairs, strict=True)])

    bound = excused(off, allowed, map(rounded, truth.rounded()))
    if of_parameters and bool((off > bound)[len(wanted) :].any()):
        # of few numbers, as a sink of each head, the shares of rows may cancel by luck, and leave a gradient that is no measure
        rows = [(replace(place, at=(t,)), w[i : i + 1]) for place, w in weighed for i, t in enumerate(place.at)]
        alone = (replace(truth).gradients([at], [w])[1] for at, w in rows)
        shares = [torch.stack([g.double().square().sum() for g in each]) for each in alone]
        uncancelled = torch.stack(shares).sum(0).sqrt() / torch.stack([want.double().norm() for want in of_parameters])
        bound[len(wanted) :] = torch.maximum(
            bound[len(wanted) :], (allowed * uncancelled).nan_to_num(posinf=0.0).clamp(max=_MOST)
        )
    worst = int((off / bound).argmax())
    if off[worst] > bound[worst]:
        raise WrongError(f"{names[worst]} {_is_off(off[worst], bound[worst])}, {setting.shape_in_words}")
    return off


def insist_on_reach(
    setting: Setting, weighed: Sequence[tuple[Place, Tensor]], got: Sequence[Tensor], source: random.Random
) -> None:
    """Raise WrongError where a gradient of these rows is not 0 in a sample or head to which none of them belongs."""
    H = setting.cell.problem.H
    for x, g in zip(unique(setting.inputs), got, strict=False) if setting.method.independent else ():
        touched = {(place.b, place.h * x.shape[1] // H) for place, _ in weighed}
        others = [(b, h) for b in range(x.shape[0]) for h in range(x.shape[1]) if (b, h) not in touched]
        if others and bool(g[source.choice(others)].any()):
            raise WrongError(f"gradients reach samples or heads that they must not reach, {setting.shape_in_words}")


def distance(got: Tensor, other: Tensor) -> float:
    """Return ‖got - other‖ / ‖other‖; exactly 0 where they are the same bit for bit."""
    got, other = got.double(), other.double()
    return 0.0 if torch.equal(got, other) else float((got - other).norm() / other.norm())


def _whole(g: Tensor, want: Tensor, least: float) -> Tensor:
    """Return the deviation of a whole tensor taken as one row: [1]."""
    return deviations(g.reshape(1, -1), want.reshape(1, -1), least)


def _is_off(off: Tensor, bound: Tensor) -> str:
    return f"is off by {float(off):.3g} of its length where {float(bound):.3g} is allowed"
