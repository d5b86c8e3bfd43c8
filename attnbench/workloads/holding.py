"""Holding what a method gave against its definition: rows of the output, and gradients of a few of them.

B samples, H heads, N tokens, n rows, M value width.
"""

import random
from collections.abc import Sequence

import torch
from torch import Tensor

from attnbench.schema.outcome import Status
from attnbench.workloads.deviation import deviations, excused, tolerance
from attnbench.workloads.places import Place, tokens
from attnbench.workloads.setting import Setting, unique
from attnbench.workloads.truth import Truth

_TOKENS_OF_GRADIENTS = 8


class WrongError(Exception):
    """What a call gave is not what it has to be, or not fairly come by; `status` says which, the message how."""

    def __init__(self, reason: str, status: Status = Status.INCORRECT) -> None:
        super().__init__(reason)
        self.status = status


def shape_in_words(setting: Setting) -> str:
    """`at B=2, H=3, N=321`."""
    p = setting.cell.problem
    return f"at B={p.B}, H={p.H}, N={p.N}"


def hold_rows(setting: Setting, truth: Truth, place: Place, got: Sequence[Tensor], what: str = "output") -> Tensor:
    """How far each row of these outputs is off at a place, [n, M] each -> [n] after [n]. Raises WrongError where too far."""
    want, allowed, found = truth.rows(place).detach(), tolerance(setting.cell), []
    for rows in got:
        off = deviations(rows, want)
        if float(off.max()) > allowed:
            bound = excused(allowed, deviations(truth.narrow().rows(place).detach(), want))
            worst = int((off / bound).argmax())
            if off[worst] > bound[worst]:
                where = f"in row {place.at[worst]} of head {place.h}, {shape_in_words(setting)}"
                raise WrongError(f"{what} {_is_off(off[worst], bound[worst])}, {where}")
        found.append(off)
    return torch.cat(found)


def weigh(g: Tensor, heads: Sequence[Place], span: int, source: random.Random) -> list[tuple[Place, Tensor]]:
    """Make dL/do [B, H, N, M] zero but in a few late rows of these heads, which no early row outweighs.

    Gives the rows, and dL/do there, [n, M] each.
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
    """How far the gradients of these rows are off: to each head of an input that they reach, then to each parameter.

    `got` is in the order of `setting.leaves`. Raises WrongError, and what the truth raises.
    """
    insist_on_reach(setting, weighed, got, source)
    inputs, allowed = unique(list(setting.inputs)), tolerance(setting.cell)
    at, weights = [place for place, _ in weighed], [w for _, w in weighed]
    wanted, of_parameters = truth.gradients(at, weights)
    numbers = {id(x): number for number, x in enumerate(inputs)}
    own = [got[numbers[id(setting.inputs[i])]][b, h] for i, b, h in wanted]
    names = [f"gradient of {setting.names[i]}" for i, _, _ in wanted]
    names += [f"gradient of {name}" for name, _ in setting.method.named_parameters()]
    pairs = list(zip([*own, *got[len(inputs) :]], [*wanted.values(), *of_parameters], strict=True))
    off = torch.cat([_whole(g, want) for g, want in pairs])
    if float(off.max()) > allowed:
        near, near_parameters = truth.narrow().gradients(at, weights)
        narrow = zip([*near.values(), *near_parameters], (want for _, want in pairs), strict=True)
        bound = excused(allowed, torch.cat([_whole(g, want) for g, want in narrow]))
        worst = int((off / bound).argmax())
        if off[worst] > bound[worst]:
            raise WrongError(f"{names[worst]} {_is_off(off[worst], bound[worst])}, {shape_in_words(setting)}")
    return off


def insist_on_reach(
    setting: Setting, weighed: Sequence[tuple[Place, Tensor]], got: Sequence[Tensor], source: random.Random
) -> None:
    """Gradients of these rows are 0 in samples and heads that no row is of. Raises WrongError where one is not."""
    H = setting.cell.problem.H
    for x, g in zip(unique(list(setting.inputs)), got, strict=False) if setting.method.independent else ():
        touched = {(place.b, place.h * x.shape[1] // H) for place, _ in weighed}
        others = [(b, h) for b in range(x.shape[0]) for h in range(x.shape[1]) if (b, h) not in touched]
        if others and bool(g[source.choice(others)].any()):
            raise WrongError(f"gradients reach samples or heads that nothing was asked of, {shape_in_words(setting)}")


def _whole(g: Tensor, want: Tensor) -> Tensor:
    """The deviation of a tensor as one row: [1]."""
    return deviations(g.reshape(1, -1), want.reshape(1, -1))


def _is_off(off: Tensor, bound: Tensor) -> str:
    return f"is off by {float(off):.3g} of its length where {float(bound):.3g} is allowed"
