"""The numerics pass: how far rounding takes a method from its own definition in float64, and whether it gives the same twice.

B samples, H heads, N tokens, n rows, M value width.
"""

import os
import random
import statistics
from time import perf_counter

import torch
from torch import Tensor

from attnbench import registry
from attnbench.api import each_once, tensors_of
from attnbench.measure import devices
from attnbench.schema import outcome
from attnbench.schema.cell import Workload
from attnbench.schema.errand import Job
from attnbench.schema.noun import Facts
from attnbench.schema.outcome import Failed, Measured, Outcome, Series, Status
from attnbench.workloads.decoding import decoded
from attnbench.workloads.holding import WrongError, distance, hold_gradients, hold_rows, weigh
from attnbench.workloads.setting import Setting, keywords_of, whole
from attnbench.workloads.truth import NoTruthError, Place, Truth

_HEADS, _ROWS = 4, 32
"""The number of heads that are compared with the definition, and of rows of each, one from each of as many equal stretches."""
_STEPS, _RUNS = 64, 3
"""The number of tokens that are decoded one by one, and of calls that are compared with the first."""
_PAIRS, _LEAST_PAIRS = 50, 5
"""The number of calls with and without deterministic algorithms: the most, and the least however long they take."""


def measure_numerics(job: Job) -> Outcome:
    """Measure once each metric that applies to the method. Raises whatever the method raises."""
    if job.cell.device_kind == "cuda":
        # without it torch has no deterministic product on a GPU; it is read before the first one, and never again
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    both, alone = (job.sized.model_copy(update={"workload": w}) for w in (Workload.FORWARD_BACKWARD, Workload.FORWARD))
    setting = whole(both if registry.load(job.cell.method).refusal(both) is None else alone, job.seed)
    source = random.Random(job.seed)  # noqa: S311 - no secret
    weighed = []
    if setting.gradient is not None:
        heads = [Place(b, h, ()) for b, h in _heads(setting, source)]
        weighed = weigh(setting.gradient, heads, setting.span, source)
    o, *gradients = results = _called(setting, job.seed)
    choices = setting.choices(job.seed + 2)
    try:
        found = _of_rows(setting, o, choices, source)
        if weighed:
            truth = Truth(setting.method, setting.inputs, choices, setting.key_mask)
            found[outcome.GRADIENT_ROUNDING] = _together(hold_gradients(setting, truth, weighed, gradients, source))
    except WrongError as error:
        return Failed(status=error.status, reason=str(error))
    except NoTruthError as error:
        return Failed(status=Status.UNSUPPORTED, reason=str(error))
    with torch.no_grad():
        found |= _of_one_sample(setting, o, choices)
        found |= _of_steps(setting, o, choices)
    again = (_called(setting, job.seed) for _ in range(_RUNS))
    found[outcome.RUN_DIFFERENCE] = max(distance(x, y) for run in again for x, y in zip(run, results, strict=True))
    facts: Facts = {"threads": torch.get_num_threads()}
    try:
        found[outcome.DETERMINISTIC_COST] = _cost_of_determinism(setting, job)
    except RuntimeError as error:
        # what torch says of an operation that has no deterministic kernel
        facts["not_deterministic"] = str(error).partition("\n")[0]
    return Measured(samples={name: Series(unit="1", values=(value,)) for name, value in found.items()}, facts=facts)


def _called(setting: Setting, seed: int) -> list[Tensor]:
    """Return the output and, with a backward, all gradients of a call; the same seed gives the same random numbers in it."""
    torch.manual_seed(seed + 2)
    return [x.detach() for x in tensors_of(setting.call())]


def _of_rows(setting: Setting, o: Tensor, choices: Tensor | None, source: random.Random) -> dict[str, float]:
    """Compare rows from each stretch of the tokens with the definition. Raises WrongError where rounding cannot explain one."""
    N, found = setting.cell.problem.N, []
    # detached, because these need no gradient
    truth = Truth(setting.method, tuple(x.detach() for x in setting.inputs), choices, setting.key_mask)
    count = min(N, _ROWS)
    for b, h in _heads(setting, source):
        at = tuple(source.randrange(i * N // count, (i + 1) * N // count) for i in range(count))
        found.append(hold_rows(setting, truth, Place(b, h, at), [o[b, h, list(at)]]))
        # only one of many heads is kept in memory
        truth.parts.clear()
    off, quarter = torch.stack(found), max(1, count // 4)
    values = {outcome.ROUNDING: _together(off), outcome.WORST_ROW: float(off.max())}
    early, late = _together(off[:, :quarter]), _together(off[:, -quarter:])
    return {**values, outcome.DRIFT: late / early} if early > 0 and N >= _ROWS else values


def _of_one_sample(setting: Setting, o: Tensor, choices: Tensor | None) -> dict[str, float]:
    """Compare the last sample alone with the same sample in its batch."""
    if setting.cell.problem.B == 1 or not setting.method.independent:
        return {}
    own = each_once(setting.inputs, lambda x: x.detach()[-1:])
    last = (x if x is None else x[-1:] for x in (choices, setting.key_mask))
    alone: Tensor = setting.method(*own, **keywords_of(*last))
    return {outcome.BATCH_DIFFERENCE: distance(alone, o[-1:])}


def _of_steps(setting: Setting, o: Tensor, choices: Tensor | None) -> dict[str, float]:
    """Compare the last tokens decoded one by one, after a prefill of all others, with the same tokens attended at once."""
    decoding = setting.cell.model_copy(update={"workload": Workload.DECODE})
    if setting.method.refusal(decoding) is not None:
        return {}
    inputs, N = tuple(x.detach() for x in setting.inputs), setting.cell.problem.N
    start = max(N // 2, N - _STEPS)
    _, *outputs = (made for _, made in decoded(setting.method, inputs, start, choices))
    return {outcome.STEP_DIFFERENCE: distance(torch.cat(outputs, 2), o[:, :, start:])}


def _cost_of_determinism(setting: Setting, job: Job) -> float:
    """Return the ratio of the medians of calls that take turns in the order ABBA.

    Raises RuntimeError where an operation has no deterministic kernel.
    """
    clock = devices.clock(job.cell.device, "wall")
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    times: dict[bool, list[float]] = {True: [], False: []}
    try:
        for number in range(-1, _PAIRS):
            for mode in (True, False) if number % 2 else (False, True):
                torch.use_deterministic_algorithms(mode)
                times[mode].append(clock.sample(setting.call, 1))
            if number < 0:
                # the first calls in a mode may have to find their kernels
                begin = perf_counter()
                times = {True: [], False: []}
            elif number + 1 >= _LEAST_PAIRS and perf_counter() - begin > job.limits.seconds:
                break
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
    return statistics.median(times[True]) / statistics.median(times[False])


def _heads(setting: Setting, source: random.Random) -> list[tuple[int, int]]:
    """Choose a few random pairs of a sample and a head."""
    p = setting.cell.problem
    return [divmod(number, p.H) for number in sorted(source.sample(range(p.B * p.H), min(p.B * p.H, _HEADS)))]


def _together(off: Tensor) -> float:
    """Return the root mean square."""
    return float(off.square().mean().sqrt())
