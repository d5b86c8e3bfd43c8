"""The proof of a time: what timed calls gave, held against the method's own definition at the very shape that was timed.

No method knows beforehand which of its outputs are looked at, which rows of them, and with which values it is called once more.
B samples, H heads, N tokens, n rows, M value width.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

import torch
from torch import Tensor

from attnbench.api import Attention
from attnbench.measure.clock import Call, Clock
from attnbench.measure.loop import MIN_SAMPLES
from attnbench.schema.noun import Scalar
from attnbench.schema.outcome import Status
from attnbench.schema.units import seconds as in_units
from attnbench.workloads.holding import WrongError, hold_gradients, hold_rows, insist_on_reach, shape_in_words, weigh
from attnbench.workloads.places import Place, last_tokens, places
from attnbench.workloads.setting import Inputs, Setting
from attnbench.workloads.truth import NoTruthError, Truth
from attnbench.workloads.witness import Witness, rows_of

Facts = dict[str, Scalar | None]
SHARE = 0.08
"""Of a job's time, what its proof may take; one call is made and one place is looked at in any case."""
_HEADS_OF_GRADIENTS = 3
_BACKWARD = 5.0
"""About how many times as long as a few rows their gradients take."""
_MOST_PAIRS = 12
_SLOWER, _JITTER = 2.0, 5e-5
"""How many times as long, and how many seconds longer, a call on new values may take than one on values that it has seen."""


@dataclass
class Proof:
    """Proves that the times of a setting, whose calls a clock has sampled and a witness has seen, are those of its method."""

    setting: Setting
    clock: Clock
    call: Call
    """What the clock sampled."""
    witness: Witness
    samples: list[float]
    """Seconds per call; where there are few, one more is added."""
    seconds: float
    """What the job has taken so far."""
    begin: float
    """When that was over."""
    seed: int
    facts: Facts = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    compared: int = 0
    worst: float = 0.0
    _of_sample: tuple[int, Truth, int] | None = None

    def make(self) -> None:
        """Raises WrongError where the times are not the method's, and whatever the method raises."""
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
        """Seconds that the proof may still take."""
        return SHARE * self.seconds - (perf_counter() - self.begin)

    def _look_at_timed_calls(self) -> None:
        """Rows that timed calls gave, against the definition on the inputs that they were given."""
        setting, seen = self.setting, self.witness.seen
        self.facts |= {"input_sets": len(setting.sets), "outputs_seen": len(seen)}
        if not all(bool(rows.isfinite().all()) for _, rows in seen):
            raise WrongError("a timed call gave numbers that are not finite")
        if setting.first_row or type(setting.method).choose is not Attention.choose:
            # a step sums into its state, and buckets are drawn anew: what such a call had to give is not known afterwards
            return
        for number in sorted({number for number, _ in seen}):
            if self.time_left < 0:
                self.left_out.append("timed outputs on some sets of inputs")
                return
            truth = Truth(setting.method, setting.sets[number], None, setting.key_mask)
            try:
                hold_rows(
                    setting, truth, self.witness.place, [x for turn, x in seen if turn == number], "output of a timed call"
                )
            except NoTruthError:
                return

    def _call_on_new_values(self) -> float:
        """Once more, exactly as it was timed, on other values in the same storages; gives its seconds."""
        setting, p, source = self.setting, self.setting.cell.problem, self.witness.source
        setting.sets, setting.turn = [setting.inputs], 0
        setting.refill(self.seed)
        looked_at = last_tokens(p.B, p.H, p.N, source) if setting.first_row else places(p.B, p.H, p.N, self._span, source)
        self.choices = None if setting.first_row else self._choices(setting.inputs)
        weighed, affordable = [], 0
        if setting.gradient is not None:
            affordable = self._affordable(looked_at)
            weighed = weigh(setting.gradient, looked_at[: max(1, affordable)], self._span, source)
        self.witness.note_inputs()
        results: list[object] = []
        torch.manual_seed(self.seed)
        seconds = self.clock.sample(self.call, 1, results.append)
        result = results[0]
        at_once = [rows_of(setting, result, place) for place in looked_at]
        if len(self.samples) < MIN_SAMPLES:
            # a call like all others: where they are few, it is one of them
            self.samples.append(seconds)
        tensors = [x for x in (result if isinstance(result, tuple) else (result,)) if isinstance(x, Tensor)]
        if not all(bool(x.sum(dtype=torch.promote_types(x.dtype, torch.float32)).isfinite()) for x in tensors):
            raise WrongError(f"it gave numbers that are not finite, {shape_in_words(setting)}")
        self._row(looked_at[0], at_once[0])
        insist_on_reach(setting, weighed, tensors[1:], source)
        if affordable:
            truth = Truth(setting.method, setting.inputs, self.choices, setting.key_mask)
            self.facts["gradient_error"] = float(hold_gradients(setting, truth, weighed, tensors[1:], source).max())
        for number, (place, rows) in enumerate(zip(looked_at[1:], at_once[1:], strict=True), start=1):
            if self.time_left < 0:
                self.left_out.append(f"{len(looked_at) - number} of {len(looked_at)} heads of the output")
                break
            self._row(place, rows)
        if any(not torch.equal(rows, rows_of(setting, result, place)) for rows, place in zip(at_once, looked_at, strict=True)):
            raise WrongError("its output went on changing after the call had returned", Status.UNFAIR)
        return seconds

    def _choices(self, inputs: Inputs) -> Tensor | None:
        """Those that a call with the same seed makes; None where the definition makes its own."""
        method = self.setting.method
        if method.rows_choose:
            return None
        torch.manual_seed(self.seed)
        with torch.no_grad():
            return method.choose(*inputs)

    def _truth(self, b: int) -> tuple[Truth, int]:
        """The definition on what the present call attends in sample b, and the number of that sample in it."""
        if self._of_sample is None or self._of_sample[0] != b:
            setting = self.setting
            inputs, number = setting.sample(b)
            choices = self._choices(inputs) if setting.first_row else self.choices
            self._of_sample = b, Truth(setting.method, inputs, choices, setting.key_mask), number
        return self._of_sample[1:]

    def _affordable(self, looked_at: Sequence[Place]) -> int:
        """Of how many heads there is time for gradients, by what the definition of one row takes."""
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

    def _row(self, place: Place, rows: Tensor) -> None:
        """Rows of the output against the definition."""
        truth, b = self._truth(place.b)
        try:
            self.worst = max(self.worst, float(hold_rows(self.setting, truth, Place(b, place.h, place.at), [rows]).max()))
            self.compared += len(rows)
        except NoTruthError as error:
            self.left_out.append(str(error))
        # of many heads only one is in memory
        truth.parts.clear()

    def _time_new_values_and_old(self, seconds: float) -> None:
        """What a method keeps of a call must not make the next one fast: where new values took much longer, try them in pairs.

        Both calls of a pair follow the same preparation; the second one is on the values of the first. The fastest of each are
        compared, for a busy machine makes calls slower, and none faster.
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

    @property
    def _span(self) -> int:
        return max(1, type(self.setting.method).span(self.setting.cell.problem, self.setting.cell.params))
