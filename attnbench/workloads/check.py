"""The correctness gate: a method against its own reference, before any of its times count.

A method is checked twice: on the shortest sequence that it takes, and on one more than twice as long as the longest part of its
structure and no multiple of it, with several samples and heads. Where the dense reference would be too large for that, rows of
the output and their gradients are compared with the definition of these rows.

With r the float64 reference of the rounded inputs and e the reference in the dtype, an output o passes where
max|o - r| <= 4 max|e - r| + 2 max|(r + 0.3 - 0.3) - r| + 4 eps max|r|, the middle term in the dtype, eps that of
float32: where e happens to be good to a rounding, a few roundings are no error. So do all gradients. Of a tensor of a few
numbers (a parameter for each head) e is a matter of luck: there max|e - r| / max|r| counts four times as much, and as at least
what it is of the larger ones; a wrong sum is off by a thousand times as much.
"""

import copy
import math
import random
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from attnbench.api import Attention, Causality, Tier
from attnbench.schema.cell import Batch, Cell, Inputs, Workload
from attnbench.schema.errand import Job
from attnbench.schema.outcome import Failed, Measured, Outcome, Status
from attnbench.workloads.decoding import cut, prefill, share, step
from attnbench.workloads.deviation import deviations, excused, tolerance
from attnbench.workloads.holding import WrongError, hold_gradients, hold_rows, shape_in_words, weigh
from attnbench.workloads.likeness import likeness
from attnbench.workloads.places import places
from attnbench.workloads.setting import Setting, unique, whole
from attnbench.workloads.truth import Truth

LENGTHS = (64, 128, 256, 512, 1024)
_LEAST_LONG = 321
"""Tokens of the long check where the structure asks for no more: beyond two tiles of any kernel."""
_LONGEST = 2**15
_MANY_HEADS = (3, 4, 8)
_DENSE = 2**24
"""Scores B H N² that are compared densely."""
_SAMPLES, _ROWS_INSTEAD = 2, 256
_FLOAT64_TOLERANCE = 1e-10
_OWN_ERROR = 4
"""How many times as far off as the definition in the dtype: the largest errors of two ways to sum rarely differ by more."""
_FEW, _LUCK = 64, 4
"""Numbers of a tensor whose largest error is a matter of luck, and how many times as much it counts there."""
_PLAIN = {"batch": Batch.FIXED, "training": None, "inputs": Inputs.NORMAL, "recording": "", "scale": 1.0}


def check_cells(method: type[Attention], cell: Cell) -> tuple[Cell, ...]:
    """The cells on which a cell's method is checked, the short one first; none where it allows none."""
    short = next((found for N in LENGTHS if (found := _allowed(method, cell, 1, 2, N)) is not None), None)
    return tuple(each for each in (short, _long(method, cell)) if each is not None)


def _long(method: type[Attention], cell: Cell) -> Cell | None:
    """Beyond two of its longest parts: half a part and a token more, or as few whole parts as are allowed."""
    N = _LEAST_LONG
    # the structure may follow from the length
    while 2 * (span := _span(method, cell, N)) + 1 > N and N < _LONGEST:
        N = max(N + 1, 2 * span + span // 2 + 1)
    ragged_first = [N, *(2 ** (N - 1).bit_length() * m for m in (1, 2)), *(-(-N // span) * span * m for m in (1, 2))]
    tried = ((N, H) for N in ragged_first for H in _MANY_HEADS if N <= _LONGEST)
    return next((found for N, H in tried if (found := _allowed(method, cell, _SAMPLES, H, N)) is not None), None)


def _span(method: type[Attention], cell: Cell, N: int) -> int:
    return max(1, method.span(cell.problem.model_copy(update={"N": N}), cell.params))


def _allowed(method: type[Attention], cell: Cell, B: int, H: int, N: int) -> Cell | None:
    """This cell at another size, with a backward if the method has one; heads that share keys go on sharing them."""
    kv_heads = H if cell.problem.kv_heads == cell.problem.H else 1 if H % 2 else H // 2
    problem = cell.problem.model_copy(update={"B": B, "H": H, "kv_heads": kv_heads, "N": N})
    for workload in (Workload.DECODE,) if cell.workload.decodes else (Workload.FORWARD_BACKWARD, Workload.FORWARD):
        found = cell.model_copy(update={"problem": problem, "workload": workload, **_PLAIN})
        if not method.refusal(found):
            return found
    return None


def check(job: Job) -> Outcome:
    """Values, gradients and causality of the job's (small) cell; token by token, of one that decodes.

    Raises whatever the method raises.
    """
    setting, p = whole(job.cell, job.seed), job.cell.problem
    dense = p.B * p.H * p.N**2 <= _DENSE or type(setting.method).rows is Attention.rows
    counter = FlopCounterMode(display=False)
    try:
        findings = _findings(setting, counter, job.seed) if dense else _by_rows(setting, counter, job.seed)
    except WrongError as error:
        return Failed(status=error.status, reason=str(error))
    if any(finding.excess > 1 for finding in findings):
        return Failed(status=Status.INCORRECT, reason=_in_words(findings, p.N))
    worst = max(findings, key=lambda f: f.excess)
    # those of the products that torch sees: it sees into no kernel
    flops = float(counter.get_total_flops())
    return Measured(facts={"worst": worst.name, "error": worst.error, "tolerance": worst.tolerance, "flops": flops})


def _in_words(findings: list["_Finding"], N: int) -> str:
    """The first that is off: the output before gradients, these before causality; then what else is, or what is not."""
    first, *others = [finding for finding in findings if finding.excess > 1]
    right = [finding.name for finding in findings if finding.excess <= 1 and not finding.row]
    parts = [f"{first.name} off by {first.error:.3g} where {first.tolerance:.3g} is allowed, at N={N}"]
    if first.hint:
        parts.append(first.hint)
    if wrong := [finding.name for finding in others if not finding.row]:
        parts.append(f"also off: {', '.join(wrong)}")
    if right:
        parts.append(f"right: {', '.join(right)}")
    return "; ".join(parts)


def _findings(setting: Setting, counter: FlopCounterMode, seed: int) -> list["_Finding"]:
    """Of the output, its rows, all gradients and causality, in this order. Raises WrongError."""
    method, inputs, gradient = setting.method, setting.inputs, setting.gradient
    choices = method.choose(*inputs)
    keywords = setting.keywords if choices is None else {**setting.keywords, "choices": choices}
    exact = copy.deepcopy(method).to(torch.float64)
    decodes = setting.cell.workload.decodes
    if decodes:
        got = [_decode(method, inputs, choices)]
    else:
        got = _evaluate(method, method, inputs, gradient, keywords, _counting(method, counter))
    eager = _evaluate(method, method.reference, inputs, gradient, keywords)
    wide_gradient = gradient.double() if gradient is not None else None
    wide = _evaluate(exact, exact.reference, _widen(inputs), wide_gradient, keywords)
    output, *gradients = _compared(_names(setting)[: len(got)], got, eager, wide)
    row = _row_by_row(setting, got[0], eager[0], wide[0])
    if output.excess > 1 or row.excess > 1:
        hint = likeness(setting, exact, got[0].detach(), wide[0], keywords, seed)
        output, row = replace(output, hint=hint), replace(row, hint=hint)
    findings = [output, row, *gradients]
    if setting.cell.problem.causal and not decodes:
        findings += _future(method, inputs, keywords, output.tolerance)
    return findings


def _row_by_row(setting: Setting, got: Tensor, eager: Tensor, exact: Tensor) -> "_Finding":
    """The row of the output that is off the most, as a share of its own length: late rows are short, and lost beside others."""
    off = deviations(got.flatten(0, 2), exact.flatten(0, 2))
    bound = excused(tolerance(setting.cell), deviations(eager.detach().flatten(0, 2), exact.detach().flatten(0, 2)))
    worst = int((off / bound).argmax())
    N = setting.cell.problem.N
    name = f"row {worst % N} of head {worst // N % setting.cell.problem.H}"
    return _Finding(name, float(off[worst]), float(bound[worst]), row=True)


def _by_rows(setting: Setting, counter: FlopCounterMode, seed: int) -> list["_Finding"]:
    """The same where N² would not fit, with rows and their gradients in the place of all of it. Raises WrongError."""
    method, inputs, p, source = setting.method, setting.inputs, setting.cell.problem, random.Random(seed)  # noqa: S311 - no secret
    choices = method.choose(*inputs)
    keywords = setting.keywords if choices is None else {**setting.keywords, "choices": choices}
    truth, span = Truth(method, inputs, choices, setting.key_mask), max(1, type(method).span(p, setting.cell.params))
    looked_at = places(p.B, p.H, p.N, span, source, _ROWS_INSTEAD)
    weighed = weigh(setting.gradient, looked_at[:_SAMPLES], span, source) if setting.gradient is not None else []
    if setting.cell.workload.decodes:
        got = [_decode(method, inputs, choices)]
    else:
        got = _evaluate(method, method, inputs, setting.gradient, keywords, _counting(method, counter))
    off = [hold_rows(setting, truth, place, [got[0][place.b, place.h, list(place.at)]]) for place in looked_at]
    if not all(bool(x.sum(dtype=torch.float64).isfinite()) for x in got):
        raise WrongError(f"it gave numbers that are not finite, {shape_in_words(setting)}")
    error = float(torch.cat(off).max())
    findings = [_Finding("output", error, max(error, tolerance(setting.cell)))]
    if weighed:
        truth = Truth(method, inputs, choices, setting.key_mask)
        error = float(hold_gradients(setting, truth, weighed, got[1:], source).max())
        findings.append(_Finding("gradients", error, max(error, tolerance(setting.cell))))
    if p.causal and not setting.cell.workload.decodes:
        # what is hidden changes at most the order of sums
        findings += _future(method, inputs, keywords, tolerance(setting.cell) * float(got[0].detach().abs().max()))
    return findings


def _decode(method: Attention, inputs: tuple[Tensor, ...], choices: Tensor | None) -> Tensor:
    """The first half at once, the second token by token; steps know nothing of the future, so causality holds by itself."""
    N = method.problem.N
    first, state = prefill(method, cut(inputs, N // 2), N, share(choices, N // 2))
    outputs = [_sound(method, first, cut(inputs, N // 2), "prefill")]
    for t in range(N // 2, N):
        token = cut(inputs, t + 1, start=t)
        o, state = step(method, token, state, share(choices, t + 1, start=t))
        outputs.append(_sound(method, o, token, "step"))
    return torch.cat(outputs, dim=2)


@dataclass(frozen=True)
class _Finding:
    """One comparison; `excess` above 1 is a failure."""

    name: str
    error: float
    tolerance: float
    row: bool = False
    """Whether it is a part of the output, which is judged as a whole too."""
    hint: str = ""
    """What it looks like instead."""

    @property
    def excess(self) -> float:
        # a NaN in the reference must excuse none in the method: infinity over infinity would
        if not (math.isfinite(self.error) and math.isfinite(self.tolerance)) or (self.error > 0 and self.tolerance == 0):
            return math.inf
        return self.error / self.tolerance if self.tolerance > 0 else 0.0


def _counting(method: Attention, counter: FlopCounterMode) -> AbstractContextManager[object]:
    """The counter, but for what is compiled, which does not run under one."""
    return nullcontext() if method.tier is Tier.COMPILED else counter


def _evaluate(
    method: Attention,
    function: Callable[..., Tensor],
    inputs: tuple[Tensor, ...],
    gradient: Tensor | None,
    keywords: dict[str, Any],
    forward: AbstractContextManager[object] | None = None,
) -> list[Tensor]:
    """The output, then the gradient of each input and of each of the method's own parameters, where there is one."""
    with forward or nullcontext():
        result = function(*inputs, **keywords)
    o = _sound(method, result, inputs, "forward" if function is method else "reference")
    if gradient is None:
        return [o]
    leaves = unique([*inputs, *method.parameters()])
    # 0 of what was not used: whether that is right, the definition says
    return [o.detach(), *torch.autograd.grad(o, leaves, gradient, allow_unused=True, materialize_grads=True)]


def _sound(method: Attention, o: object, inputs: tuple[Tensor, ...], name: str) -> Tensor:
    """The output, if it is one of these inputs. Raises WrongError."""
    shape = (method.problem.B, method.problem.H, inputs[-1].shape[2], method.problem.M)
    if isinstance(o, Tensor) and o.shape == shape and o.dtype == inputs[-1].dtype:
        return o
    found = f"{o.dtype} {list(o.shape)}" if isinstance(o, Tensor) else type(o).__name__
    raise WrongError(f"{name} gave {found} where {inputs[-1].dtype} {list(shape)} is right")


def _names(setting: Setting) -> list[str]:
    """Of the output and of all gradients, in the order of `_evaluate`; one tensor given twice goes by its first name."""
    first = {id(x): name for x, name in reversed(list(zip(setting.inputs, setting.names, strict=True)))}
    inputs = (f"gradient of {first[id(x)]}" for x in unique(list(setting.inputs)))
    return ["output", *inputs, *(f"gradient of {name}" for name, _ in setting.method.named_parameters())]


def _widen(inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The same values in float64; a tensor given twice stays one tensor."""
    wide = {id(t): t.detach().double().requires_grad_(t.requires_grad) for t in unique(list(inputs))}
    return tuple(wide.get(id(t), t) for t in inputs)


def _compared(names: list[str], got: list[Tensor], eager: list[Tensor], exact: list[Tensor]) -> list[_Finding]:
    """Each tensor by itself, but for those of a few numbers."""
    usual = max(
        _distance(e, r) / max(float(r.abs().max()), 1e-300) for e, r in zip(eager, exact, strict=True) if r.numel() >= _FEW
    )
    return [_compare(*one, usual) for one in zip(names, got, eager, exact, strict=True)]


def _compare(name: str, got: Tensor, eager: Tensor, exact: Tensor, usual: float) -> _Finding:
    error, own = _distance(got, exact), _distance(eager, exact)
    if exact.numel() < _FEW:
        own = _LUCK * max(own, usual * float(exact.abs().max()))
    if got.dtype is torch.float64:
        return _Finding(name, error, _FLOAT64_TOLERANCE * max(1.0, float(exact.abs().max())))
    rounded = exact.to(got.dtype)
    rounding = _distance((rounded + 0.3) - 0.3, rounded.double())
    ulps = 4 * torch.finfo(torch.float32).eps * float(exact.abs().max())
    return _Finding(name, error, _OWN_ERROR * own + 2 * rounding + ulps)


def _distance(a: Tensor, b: Tensor) -> float:
    """max|a - b| in float64; a NaN on either side is infinitely far."""
    worst = float((a.double() - b.double()).abs().max())
    return worst if worst == worst else float("inf")  # noqa: PLR0124 - NaN alone differs from itself


def _future(method: Attention, inputs: tuple[Tensor, ...], keywords: dict[str, Any], tolerance: float) -> list[_Finding]:
    """Change everything after the middle (only values, for a method that sees later keys): what came before must not move."""
    if method.causality is Causality.NONE:
        return [_Finding("causality (the method has none)", 1.0, 0.5)]
    middle = method.problem.N // 2
    changed = {id(t): _with_other_future(t, middle) for t in unique(list(inputs))}
    later = tuple(changed[id(t)] if method.causality is Causality.FULL or i == 2 else t for i, t in enumerate(inputs))
    with torch.no_grad():
        before, after = method(*inputs, **keywords), method(*later, **keywords)
    moved = _distance(before[:, :, :middle], after[:, :, :middle])
    return [_Finding("causality (earlier outputs, when the future changes)", moved, tolerance)]


def _with_other_future(x: Tensor, middle: int) -> Tensor:
    """Turned round and halved, which gates (a decay, a strength) and keys of at most length 1 allow."""
    x = x.detach().clone()
    x[:, :, middle:] = x[:, :, middle:].flip(2) / 2
    return x
