"""The proof of a time: results of timed calls, compared with the method's own definition at the very shape that was timed.

No method can know which of its outputs and rows are compared, nor with which values it is called once more.
B samples, H heads, N tokens, n rows, M value width.
"""

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

import torch
from torch import Tensor

from attnbench.api import Attention, tensors_of
from attnbench.measure.clock import Call, Clock
from attnbench.measure.loop import MIN_SAMPLES
from attnbench.schema.cell import Workload
from attnbench.schema.noun import Facts
from attnbench.schema.outcome import Status
from attnbench.schema.units import seconds as in_units
from attnbench.workloads.holding import WrongError, deviations, hold_gradients, hold_rows, insist_on_reach, tolerance, weigh
from attnbench.workloads.setting import Backward, Setting, unique
from attnbench.workloads.truth import NoTruthError, Place, Truth, last_tokens, places, tokens

_LOOKS = 4
"""All of the first samples are kept, and fewer and fewer of later ones: about this times the logarithm of their number."""
_ROWS_OF_A_LOOK, _TOKENS_OF_INPUTS = 4, 8
SHARE = 0.08
"""The share of a job's time that its proof may take; one call is made and one place is compared in any case."""
_HEADS_OF_GRADIENTS = 3
_BACKWARD = 5.0
"""About how many times as long as a few rows their gradients take."""
_MOST_PAIRS = 12
_SLOWER, _JITTER = 2.0, 5e-5
"""How many times as long, and how many seconds longer, a call on new values may take than one on values seen before."""


def rows_of(setting: Setting, result: object, place: Place) -> Tensor:
    """Copy some rows of a call's output [B, H, n, M]: [., M]. Raises WrongError where the call gave something else."""
    o = result[0] if setting.gradient is not None and isinstance(result, tuple) and result else result
    p, device = setting.cell.problem, setting.inputs[-1].device
    shape, dtype = (p.B, p.H, p.N - setting.cell.first_token, p.M), getattr(torch, p.dtype)
    right = f"{dtype} {list(shape)} on {device}"
    if not isinstance(o, Tensor):
        raise WrongError(f"a timed call gave {type(o).__name__} where {right} is right")
    if type(o) is not Tensor:
        # a subclass may put its computation off until it is read
        raise WrongError(f"a timed call gave a {type(o).__name__} where a plain tensor is right")
    if o.shape != shape or o.dtype != dtype or o.device != device or o.layout is not torch.strided:
        raise WrongError(f"a timed call gave {o.dtype} {list(o.shape)} on {o.device} where {right} is right")
    return o.detach()[place.b, place.h, [token - setting.cell.first_token for token in place.at]].clone()


class Witness:
    """Is made before the method is called for the first time, and is given the result of the last call of each sample."""

    def __init__(self, setting: Setting) -> None:
        p, self.setting, self.source = setting.cell.problem, setting, random.SystemRandom()
        at = tokens(p.N, p.N, _ROWS_OF_A_LOOK, self.source, setting.cell.first_token)
        self.place = Place(self.source.randrange(p.B), self.source.randrange(p.H), at)
        self.samples = 0
        self.seen: list[tuple[int, Tensor]] = []
        """The number of the set of inputs, and the rows at `place`, [n, M]."""
        self.wrong: WrongError | None = None
        self.note_inputs()

    def __call__(self, result: object) -> None:
        """Keep a few rows of a result, by chance."""
        self.samples += 1
        if self.wrong is None and self.source.random() * self.samples <= _LOOKS:
            try:
                self.seen.append((self.setting.turn, rows_of(self.setting, result, self.place)))
            except WrongError as error:
                self.wrong = error
        # the last call of each sample takes another set of inputs, however many calls a sample has; a graph has one set only
        self.setting.turn = self.samples % len(self.setting.sets)

    def note_inputs(self) -> None:
        """Note the inputs as they are now, which no call may change."""
        tensors = [x for inputs in self.setting.sets for x in unique(inputs)]
        self._given = [(x, _layout(x), _some_tokens(x)) for x in tensors]

    def insist_on_inputs(self) -> None:
        """Raise WrongError where the method changed its inputs."""
        for x, layout, some in self._given:
            if _layout(x) != layout:
                raise WrongError(f"it changed its inputs: {list(layout[1])} became {list(x.shape)}", Status.UNFAIR)
            if not torch.equal(some, _some_tokens(x)):
                raise WrongError("it wrote into its inputs, so that calls were on other numbers", Status.UNFAIR)


def _layout(x: Tensor) -> tuple[int, torch.Size, tuple[int, ...]]:
    return x.data_ptr(), x.shape, x.stride()


def _some_tokens(x: Tensor) -> Tensor:
    return x.detach()[:, :, :: max(1, x.shape[2] // _TOKENS_OF_INPUTS)].clone()


@dataclass
class Proof:
    """Proves that the calls which a clock has sampled and a witness has seen did the work of their method."""

    setting: Setting
    clock: Clock
    call: Call
    """The call that the clock sampled."""
    witness: Witness
    samples: list[float]
    """The seconds per call; where there are few, one more is added."""
    seconds: float
    """The seconds that the job took before the proof."""
    begin: float
    """The time at which the proof began."""
    seed: int
    facts: Facts = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    compared: int = 0
    worst: float = 0.0
    _of_sample: tuple[int, Truth, int] | None = None

    def make(self) -> None:
        """Make the proof. Raises WrongError where the times are not the method's, and whatever the method raises."""
        if self.witness.wrong is not None:
            raise self.witness.wrong
        self.witness.insist_on_inputs()
        self._look_at_timed_calls()
        self._time_new_values_and_old(self._call_on_new_values())
        self.witness.insist_on_inputs()
        self.facts |= {"rows_compared": self.compared, "row_error": self.worst, "proof_seconds": perf_counter() - self.begin}
        if self.left_out:
            self.facts["not_proven"] = "; ".join(dict.fromkeys(self.left_out))

    @property
    def time_left(self) -> float:
        """The seconds that the proof may still take."""
        return SHARE * self.seconds - (perf_counter() - self.begin)

    def _look_at_timed_calls(self) -> None:
        """Compare rows from timed calls with the definition on the inputs of those calls."""
        setting, seen = self.setting, self.witness.seen
        self.facts |= {"input_sets": len(setting.sets), "outputs_seen": len(seen)}
        if not all(bool(rows.isfinite().all()) for _, rows in seen):
            raise WrongError("a timed call gave numbers that are not finite")
        if setting.cell.first_token or type(setting.method).choose is not Attention.choose:
            # a step changes its state, and buckets are drawn in each call: the right result of such a call is not known later
            return
        for number in sorted({number for number, _ in seen}):
            if self.time_left < 0:
                self.left_out.append("timed outputs on some sets of inputs")
                return
            truth = Truth(setting.method, setting.sets[number], None, setting.key_mask)
            rows = [x for turn, x in seen if turn == number]
            try:
                hold_rows(setting, truth, self.witness.place, rows, "output of a timed call")
            except NoTruthError:
                return

    def _call_on_new_values(self) -> float:
        """Call once more, exactly as it was timed, on other values in the same storages, and return the seconds."""
        setting, p, source = self.setting, self.setting.cell.problem, self.witness.source
        setting.sets, setting.turn = [setting.inputs], 0
        setting.refill(self.seed)
        first = setting.cell.first_token
        looked_at = last_tokens(p.B, p.H, p.N, source, first) if first else places(p.B, p.H, p.N, setting.span, source)
        self.choices = None if first else setting.choices(self.seed, draws=self.clock.unrolled)
        weighed, affordable = [], 0
        if setting.gradient is not None:
            affordable = self._affordable(looked_at)
            weighed = weigh(setting.gradient, looked_at[: max(1, affordable)], setting.span, source)
        self.witness.note_inputs()
        results, calls = list[object](), 0

        def counted() -> object:
            nonlocal calls
            calls += 1
            return self.call()

        while True:
            torch.manual_seed(self.seed)
            seconds = self.clock.sample(counted, 1, results.append)
            if calls == 1:
                break
            # a clock of a GPU calls again where the host was late, but not for ever: draws and a state have gone on by then
            calls = 0
            results.clear()
            setting.refill(self.seed)
        result = results[0]
        at_once = [rows_of(setting, result, place) for place in looked_at]
        if len(self.samples) < MIN_SAMPLES:
            # it was timed as all others, so where there are few it counts as one of them
            self.samples.append(seconds)
        tensors = tensors_of(result)
        if not all(bool(x.sum(dtype=torch.promote_types(x.dtype, torch.float32)).isfinite()) for x in tensors):
            raise WrongError(f"it gave numbers that are not finite, {setting.shape_in_words}")
        self._row(looked_at[0], at_once[0])
        self._verify_again(looked_at[0])
        insist_on_reach(setting, weighed, tensors[1:], source)
        if affordable:
            truth = Truth(setting.method, setting.inputs, self.choices, setting.key_mask)
            self.facts["gradient_error"] = float(hold_gradients(setting, truth, weighed, tensors[1:], source).max())
        for number, (place, rows) in enumerate(zip(looked_at[1:], at_once[1:], strict=True), start=1):
            if self.time_left < 0:
                self.left_out.append(f"{len(looked_at) - number} of {len(looked_at)} heads of the output")
                break
            self._row(place, rows)
        if isinstance(setting, Backward):
            self._take_again(tensors[1:])
        if any(not torch.equal(rows, rows_of(setting, result, place)) for rows, place in zip(at_once, looked_at, strict=True)):
            raise WrongError("its output went on changing after the call had returned", Status.UNFAIR)
        return seconds

    def _verify_again(self, place: Place) -> None:
        """Attend tokens that are verified once more: whoever takes them back goes on from the state that was before them."""
        if self.setting.cell.workload is Workload.VERIFY:
            torch.manual_seed(self.seed)
            self._row(place, rows_of(self.setting, self.setting.call(), place), "output of a second call after the same state")

    def _take_again(self, gradients: Sequence[Tensor]) -> None:
        """Take the gradients of the same forward once more: all timed calls but the first did."""
        for x, y in zip(gradients, tensors_of(self.setting.call())[1:], strict=True):
            off = float(deviations(y.reshape(1, -1), x.reshape(1, -1)))
            if off > tolerance(self.setting.cell):
                said = f"taken again for the same forward, its gradients are off by {off:.3g}"
                raise WrongError(f"{said}; measure forward_backward", Status.INCORRECT)

    def _truth(self, b: int) -> tuple[Truth, int]:
        """Return the definition on what the present call attends in sample b, and the number of that sample in it."""
        if self._of_sample is None or self._of_sample[0] != b:
            setting = self.setting
            inputs, number = setting.sample(b)
            choices = setting.choices(self.seed, inputs) if setting.cell.first_token else self.choices
            self._of_sample = b, Truth(setting.method, inputs, choices, setting.key_mask), number
        return self._of_sample[1:]

    def _affordable(self, looked_at: Sequence[Place]) -> int:
        """Return for how many heads there is time for gradients, judged by the time for one row of the definition."""
        begin, N, first = perf_counter(), self.setting.cell.problem.N, looked_at[0]
        try:
            self._truth(first.b)[0].rows(Place(first.b, first.h, (N - 1,)))
        except NoTruthError:
            return 0
        wanted = min(_HEADS_OF_GRADIENTS, len(looked_at))
        affordable = min(wanted, int(max(0.0, self.time_left) / 2 / (_BACKWARD * (perf_counter() - begin))))
        if affordable < wanted:
            self.left_out.append(f"gradients of {'some' if affordable else 'all'} heads")
        return affordable

    def _row(self, place: Place, rows: Tensor, what: str = "output") -> None:
        """Compare rows of the output with the definition."""
        truth, b = self._truth(place.b)
        try:
            off = hold_rows(self.setting, truth, Place(b, place.h, place.at), [rows], what)
            self.worst = max(self.worst, float(off.max()))
            self.compared += len(rows)
        except NoTruthError as error:
            self.left_out.append(str(error))
        # only one of many heads is kept in memory
        truth.parts.clear()

    def _time_new_values_and_old(self, seconds: float) -> None:
        """Refuse a method whose calls are fast because it keeps results: if new values took much longer, time them in pairs.

        Both calls of a pair follow the same preparation; the second one has the values of the first. The fastest of each are
        compared, for a busy machine makes calls slower and never faster.
        """
        new, old, pairs = seconds, statistics.median(self.samples), 0
        while new > _SLOWER * old + _JITTER:
            if pairs == _MOST_PAIRS:
                said = f"a call on new values took {in_units(new)}, on values that it had seen {in_units(old)}"
                raise WrongError(f"{said}: it keeps results", Status.UNFAIR)
            pairs += 1
            self.setting.refill(self.seed + pairs)
            first = self.clock.sample(self.call, 1)
            self.setting.refill(self.seed + pairs)
            again = self.clock.sample(self.call, 1)
            new, old = (first, again) if pairs == 1 else (min(new, first), min(old, again))
        self.witness.note_inputs()
