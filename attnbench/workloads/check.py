"""The correctness gate: a method against its own reference, before any of its times count.

A method is checked twice: on the shortest sequence that it takes, and on one more than twice as long as the longest part of its
structure and no multiple of it, with several samples and heads. Where the dense reference would be too large for that, rows of
the output and their gradients are compared with the definition of these rows.

With r the float64 reference of the rounded inputs and e the reference in the dtype, an output o passes where
max|o - r| <= 4 max|e - r| + 2 max|(r + 0.3 - 0.3) - r| + 20 eps max|r|, with the middle term in the dtype and the eps of
float32: where e happens to be exact to one rounding, a few roundings are still no error. All gradients have to pass too. For a
tensor of few numbers (a parameter for each head) e is exact by luck at times: there max|e - r| / max|r| counts four times as
much, and at least as much as for the larger tensors; a wrong sum is off by a thousand times as much.
"""

import copy
import math
import random
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from attnbench.api import Attention, Causality, Tier, each_once
from attnbench.schema.cell import Allocator, Batch, Cell, ClockMode, Inputs, Workload
from attnbench.schema.errand import Job
from attnbench.schema.noun import Facts, in_words
from attnbench.schema.outcome import Failed, Measured, Outcome, Status
from attnbench.workloads.decoding import decoded
from attnbench.workloads.holding import WrongError, deviations, excused, hold_gradients, hold_rows, tolerance, weigh
from attnbench.workloads.likeness import likeness
from attnbench.workloads.setting import Setting, keywords_of, unique, whole
from attnbench.workloads.truth import Truth, places

LENGTHS = (64, 128, 256, 512, 1024)
_ALLOCATES = {torch.ops.aten.baddbmm_: torch.ops.aten.baddbmm, torch.ops.aten.addmm_: torch.ops.aten.addmm}
"""The products in place, for which torch has no formulas, as those that it has."""
_LEAST_LONG = 321
"""The tokens of the long check where the structure asks for no more: beyond two tiles of any kernel."""
_LONGEST = 2**15
_FEW_HEADS, _MANY_HEADS = (2,), (3, 4, 8)
_DENSE = 2**24
"""The most scores B H N² that are compared densely."""
_SAMPLES, _ROWS_INSTEAD = 2, 256
_FLOAT64_TOLERANCE = 1e-10
_OWN_ERROR = 4
"""How many times as far off as the definition in the dtype a tensor may be: errors of two ways to sum rarely differ more."""
_UNITS = 20
"""How many units in float32's last place of the largest number are no error: long sums, as of chunks of 128, have as many."""
_FEW, _LUCK = 64, 4
"""A tensor of fewer numbers has a largest error that depends on luck, which counts so many times as much."""
_BARE = {"training": None, "model": None, "new_tokens": 1}
_MEASURED = {"batch": Batch.FIXED, "clock": ClockMode.DEFAULT, "allocator": Allocator.RETAIN}
_PLAIN = {**_BARE, **_MEASURED, "inputs": Inputs.NORMAL, "recording": "", "scale": 1.0}


def check_cells(method: type[Attention], cell: Cell) -> tuple[Cell, ...]:
    """Return the cells on which a cell's method is checked, the short one first; none where it allows none."""
    # what was tuned for the timed shape may hold for as many samples and heads only, and would be looked for again with fewer
    timed = cell.problem.B, (cell.problem.H,)
    (B, heads), (samples, many_heads) = (timed, timed) if method.tunes else ((1, _FEW_HEADS), (_SAMPLES, _MANY_HEADS))
    short = next((found for N in LENGTHS for H in heads if (found := _allowed(method, cell, B, H, N)) is not None), None)
    # the longest part of the structure may depend on the length
    N = _LEAST_LONG
    while 2 * (span := max(1, method.span(cell.reshaped(N=N).problem, cell.params))) + 1 > N and N < _LONGEST:
        N = max(N + 1, 2 * span + span // 2 + 1)
    # half a part and a token more, or else as few whole parts as are allowed
    ragged_first = [N, *(2 ** (N - 1).bit_length() * m for m in (1, 2)), *(-(-N // span) * span * m for m in (1, 2))]
    tried = ((N, H) for N in ragged_first for H in many_heads if N <= _LONGEST)
    long = next((found for N, H in tried if (found := _allowed(method, cell, samples, H, N)) is not None), None)
    return tuple(each for each in (short, long) if each is not None)


def _allowed(method: type[Attention], cell: Cell, B: int, H: int, N: int) -> Cell | None:
    """Return this cell at another size, with a backward if the method has one; heads that share keys still share them."""
    p = cell.problem
    kv_heads = p.kv_heads if p.H == H else H if p.kv_heads == p.H else 1 if H % 2 else H // 2
    for workload in (Workload.DECODE,) if cell.workload.makes_state else (Workload.FORWARD_BACKWARD, Workload.FORWARD):
        found = cell.reshaped(B=B, H=H, kv_heads=kv_heads, N=N).model_copy(update={"workload": workload, **_PLAIN})
        if not method.refusal(found):
            return found
    return None


def check(job: Job) -> Outcome:
    """Check values, gradients and causality of the job's (small) cell, token by token if it decodes.

    Raises whatever the method raises.
    """
    tuned = _tune(job)
    setting = whole(job.sized, job.seed)
    p = setting.cell.problem
    dense = p.B * p.H * p.N**2 <= _DENSE or type(setting.method).rows is Attention.rows
    counter = _Counter()
    try:
        findings = _densely(setting, counter, job.seed) if dense else _by_rows(setting, counter, job.seed)
    except WrongError as error:
        return Failed(status=error.status, reason=str(error))
    if wrong := [finding for finding in findings if finding.excess > 1]:
        # the output is told before gradients, these before causality; then what else is wrong, and what is right
        first, *others = wrong
        right = [finding.name for finding in findings if finding.excess <= 1 and not finding.row]
        also = [finding.name for finding in others if not finding.row]
        parts = [
            f"{first.name} off by {first.error:.3g} where {first.tolerance:.3g} is allowed, at N={p.N}",
            first.hint,
            f"also off: {', '.join(also)}" if also else "",
            f"right: {', '.join(right)}" if right else "",
        ]
        return Failed(status=Status.INCORRECT, reason="; ".join(filter(None, parts)))
    worst = max(findings, key=lambda finding: finding.excess)
    flops = counter.flops
    return Measured(facts={"worst": worst.name, "error": worst.error, "tolerance": worst.tolerance, "flops": flops, **tuned})


class _Counter(TorchDispatchMode):
    """Adds up the FLOPs of the products that torch makes itself, by its own formulas; it sees none inside of a kernel.

    torch's own counter tells modules apart, and imports torch's compiler for it: a second or more in each process that checks.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops = 0.0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # to be skipped by torch's compiler, it would import that too
        return False

    def __torch_dispatch__(
        self, func: Callable[..., object], types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> object:
        result = func(*args, **(kwargs or {}))
        product: Any = getattr(func, "overloadpacket", None)
        if formula := flop_registry.get(_ALLOCATES.get(product, product)):
            self.flops += formula(*args, **(kwargs or {}), out_val=result)
        return result


def _tune(job: Job) -> Facts:
    """Call a method whose kernels tune themselves once at the shape that is timed.

    What they chose at the check's shape, a chunk or two, they would keep for all others.
    """
    if job.tuned_at is None:
        return {}
    p, begin = job.tuned_at.problem, perf_counter()
    try:
        whole(job.cell.reshaped(B=p.B, H=p.H, kv_heads=p.kv_heads, N=p.N).laid, job.seed).call()
    except Exception as error:  # noqa: BLE001 - the check is not lost with it, and what is timed says more
        return {"tuning": f"failed: {in_words(error)[:400]}"}
    return {"tuned_at": f"B={p.B}, H={p.H}, N={p.N}", "tuning_seconds": perf_counter() - begin}


@dataclass(frozen=True)
class _Finding:
    """One comparison; `excess` above 1 is a failure."""

    name: str
    error: float
    tolerance: float
    row: bool = False
    """True for a part of the output, which is judged as a whole too."""
    hint: str = ""
    """What the output looks like instead."""

    @property
    def excess(self) -> float:
        # a NaN in the reference must not excuse one in the method, as infinity over infinity would
        if not (math.isfinite(self.error) and math.isfinite(self.tolerance)) or (self.error > 0 and self.tolerance == 0):
            return math.inf
        return self.error / self.tolerance if self.tolerance > 0 else 0.0


def _densely(setting: Setting, counter: _Counter, seed: int) -> list[_Finding]:
    """Compare the output, its rows, all gradients and causality with the dense reference, in this order. Raises WrongError."""
    method, inputs, gradient, p = setting.method, setting.inputs, setting.gradient, setting.cell.problem
    choices = method.choose(*inputs)
    keywords = keywords_of(choices, setting.key_mask)
    exact = copy.deepcopy(method).to(torch.float64)
    got = _called(setting, counter, choices)
    eager = _evaluate(method, method.reference, inputs, gradient, keywords)
    wide_inputs = each_once(
        inputs, lambda x: x.detach().double().requires_grad_(x.requires_grad) if x.is_floating_point() else x
    )
    wide_gradient = gradient.double() if gradient is not None else None
    wide = _evaluate(exact, exact.reference, wide_inputs, wide_gradient, keywords)
    names = ["output"]
    if gradient is not None:
        # a tensor that is given twice goes by its first name
        first = {id(x): name for x, name in reversed(list(zip(inputs, setting.names, strict=True)))}
        names += [f"gradient of {first[id(x)]}" for x in unique(inputs)]
        names += [f"gradient of {name}" for name, _ in method.named_parameters()]
    apart = [_distance(e, r) / max(float(r.abs().max()), 1e-300) for e, r in zip(eager, wide, strict=True) if r.numel() >= _FEW]
    usual = max(filter(math.isfinite, apart), default=0.0)
    allowed = tolerance(setting.cell)
    output, *gradients = [_compare(*one, usual, allowed) for one in zip(names, got, eager, wide, strict=True)]
    # late rows are short, so that an error in one would be lost beside the others: each is judged by its own length
    off = deviations(got[0].flatten(0, 2), wide[0].flatten(0, 2))
    own = deviations(eager[0].flatten(0, 2), wide[0].flatten(0, 2))
    bound = excused(off, allowed, [own])
    worst = int((off / bound).argmax())
    row = _Finding(f"row {worst % p.N} of head {worst // p.N % p.H}", float(off[worst]), float(bound[worst]), row=True)
    if output.excess > 1 or row.excess > 1:
        hint = likeness(setting, exact, got[0].detach(), wide[0], keywords, seed)
        output, row = replace(output, hint=hint), replace(row, hint=hint)
    findings = [output, row, *gradients]
    if p.causal and not setting.cell.workload.decodes:
        findings.append(_future(setting, output.tolerance, seed))
    return findings


def _by_rows(setting: Setting, counter: _Counter, seed: int) -> list[_Finding]:
    """Compare rows of the output, their gradients and causality, where N² would not fit. Raises WrongError."""
    method, inputs, p, source = setting.method, setting.inputs, setting.cell.problem, random.Random(seed)  # noqa: S311 - no secret
    choices = method.choose(*inputs)
    truth = Truth(method, inputs, choices, setting.key_mask)
    looked_at = places(p.B, p.H, p.N, setting.span, source, _ROWS_INSTEAD)
    weighed = weigh(setting.gradient, looked_at[:_SAMPLES], setting.span, source) if setting.gradient is not None else []
    got = _called(setting, counter, choices)
    off = [hold_rows(setting, truth, place, [got[0][place.b, place.h, list(place.at)]]) for place in looked_at]
    if not all(bool(x.sum(dtype=torch.float64).isfinite()) for x in got):
        raise WrongError(f"it gave numbers that are not finite, {setting.shape_in_words}")
    allowed, error = tolerance(setting.cell), float(torch.cat(off).max())
    findings = [_Finding("output", error, max(error, allowed))]
    if weighed:
        truth = Truth(method, inputs, choices, setting.key_mask)
        error = float(hold_gradients(setting, truth, weighed, got[1:], source).max())
        findings.append(_Finding("gradients", error, max(error, allowed)))
    if p.causal and not setting.cell.workload.decodes:
        # a hidden future may change the order of sums, but nothing else
        findings.append(_future(setting, allowed * float(got[0].detach().abs().max()), seed))
    return findings


def _called(setting: Setting, counter: _Counter, choices: Tensor | None) -> list[Tensor]:
    """Call the method as its workload does, and count its FLOPs where it is not compiled. Raises WrongError."""
    method, inputs = setting.method, setting.inputs
    if not setting.cell.workload.decodes:
        # compiled code does not run under a counter
        counting = nullcontext() if method.tier is Tier.COMPILED else counter
        return _evaluate(method, method, inputs, setting.gradient, keywords_of(choices, setting.key_mask), counting)
    # the first half at once, the second token by token: steps cannot see the future, so causality need not be tried
    calls = decoded(method, inputs, method.problem.N // 2, choices)
    outputs = [_sound(method, o, given, "step" if number else "prefill") for number, (given, o) in enumerate(calls)]
    return [torch.cat(outputs, dim=2)]


def _evaluate(
    method: Attention,
    function: Callable[..., Tensor],
    inputs: tuple[Tensor, ...],
    gradient: Tensor | None,
    keywords: dict[str, Any],
    forward: AbstractContextManager[object] | None = None,
) -> list[Tensor]:
    """Return the output, then, if there is a dL/do, the gradient of each input and of each of the method's parameters."""
    with forward or nullcontext():
        result = function(*inputs, **keywords)
    o = _sound(method, result, inputs, "forward" if function is method else "reference")
    if gradient is None:
        return [o]
    leaves = unique([*inputs, *method.parameters()])
    # the gradient of what was not used is 0; comparing with the reference shows whether that is right
    return [o.detach(), *torch.autograd.grad(o, leaves, gradient, allow_unused=True, materialize_grads=True)]


def _sound(method: Attention, o: object, inputs: tuple[Tensor, ...], name: str) -> Tensor:
    """Return the output if it has the right shape and dtype. Raises WrongError."""
    shape = (method.problem.B, method.problem.H, inputs[-1].shape[2], method.problem.M)
    if isinstance(o, Tensor) and o.shape == shape and o.dtype == inputs[-1].dtype:
        return o
    found = f"{o.dtype} {list(o.shape)}" if isinstance(o, Tensor) else type(o).__name__
    raise WrongError(f"{name} gave {found} where {inputs[-1].dtype} {list(shape)} is right")


def _compare(name: str, got: Tensor, eager: Tensor, exact: Tensor, usual: float, allowed: float) -> _Finding:
    error, own, largest = _distance(got, exact), _distance(eager, exact), float(exact.abs().max())
    if got.dtype is torch.float64:
        return _Finding(name, error, _FLOAT64_TOLERANCE * max(1.0, largest))
    if not math.isfinite(own):
        # a dtype that cannot hold the definition's own steps says nothing of the error; it is judged as a row is
        own = allowed * largest / _OWN_ERROR
    elif exact.numel() < _FEW:
        own = _LUCK * max(own, usual * largest)
    rounded = exact.to(got.dtype)
    rounding = _distance((rounded + 0.3) - 0.3, rounded.double())
    ulps = _UNITS * torch.finfo(torch.float32).eps * largest
    return _Finding(name, error, _OWN_ERROR * own + 2 * rounding + ulps)


def _distance(a: Tensor, b: Tensor) -> float:
    """Return max|a - b| in float64; a NaN on either side is infinitely far."""
    worst = float((a.double() - b.double()).abs().max())
    return math.inf if math.isnan(worst) else worst


def _future(setting: Setting, tolerance: float, seed: int) -> _Finding:
    """Change all tokens after the middle (only values, if the method sees later keys): earlier outputs must not change.

    Choices are the method's own, as in calls that are timed, by the same random numbers both times.
    """
    method, middle = setting.method, setting.cell.problem.N // 2

    def with_other_future(x: Tensor) -> Tensor:
        # reversed and halved, which gates (a decay, a strength) and keys of at most length 1 allow
        x = x.detach().clone()
        if x.is_floating_point():
            x[:, :, middle:] = x[:, :, middle:].flip(2) / 2
        return x

    later = each_once(setting.inputs, with_other_future)
    if method.causality is not Causality.FULL:
        later = (*setting.inputs[:2], later[2], *setting.inputs[3:])
    outputs = []
    for inputs in (setting.inputs, later):
        torch.manual_seed(seed)
        with torch.no_grad():
            outputs.append(method(*inputs, **keywords_of(None, setting.key_mask)))
    before, after = outputs
    moved = _distance(before[:, :, :middle], after[:, :, :middle])
    return _Finding("causality (earlier outputs, when the future changes)", moved, tolerance)
