"""Every figure that a cell can have, defined once: its name, its unit, how it is read, and which direction is better.

Tables, plots, pages, exports, crossovers, trends and the CSV ask here: a new figure is one entry.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from statistics import mode
from typing import Any

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.main_counter import STATE, MainCounter, main_counter
from attnbench.analyze.roofline import placed
from attnbench.analyze.sections import grouped
from attnbench.analyze.statistics import ENOUGH, Estimate, by_factors, by_sums
from attnbench.schema import outcome
from attnbench.schema.cell import Workload
from attnbench.schema.cost import Cost
from attnbench.schema.run import RunInfo

TIME, MEMORY, STATE_BYTES, ROOF, ENERGY = "time", "memory", "state", "roof", outcome.ENERGY
SEEDS = 3
"""Trained models from which on an interval is given: a seed takes minutes, and fewer can be had than of replicates."""

Values = Mapping[int, float]
"""By replicate number."""


class Unit(StrEnum):
    """The SI unit in which a figure is kept; how people read it is written in one place, `report/text/numbers.py`."""

    SECONDS = "s"
    BYTES = "B"
    JOULES = "J"
    SHARE = "share"
    """Kept as a share of 1, and shown in per cent."""
    TOKENS = "tokens/s"
    SEQUENCES = "sequences/s"
    FLOP_RATE = "FLOP/s"
    BYTE_RATE = "B/s"
    NATS = "nats"
    BITS = "bits"
    FACTOR = "×"
    PLAIN = ""


class Center(StrEnum):
    """The way from the replicates of a cell to one number with an interval."""

    FACTORS = "factors"
    """The median, and the t interval of the mean logarithm: positive figures that differ by factors."""
    RATES = "rates"
    """The same of its inverse, turned back: what is done over a time follows the median of the time."""
    SUMS = "sums"
    """The mean and its t interval: scores, which may be 0."""
    ONCE = "once"
    """The number itself: it is read once a cell, and hardly varies."""


_SUFFIX = {
    Unit.SECONDS: "_s",
    Unit.BYTES: "_bytes",
    Unit.JOULES: "_j",
    Unit.TOKENS: "_per_s",
    Unit.SEQUENCES: "_per_s",
    Unit.FLOP_RATE: "_per_s",
    Unit.BYTE_RATE: "_bytes_per_s",
}


@dataclass(frozen=True)
class Quantity:
    """One figure of a cell; of a time, a rate, an energy or a number of bytes per sample of the batch."""

    name: str
    """Its name on the command line, in suites and in Python."""
    title: str
    unit: Unit
    read: Callable[[CellSummary], Values]
    """Read it off a cell that is ok."""
    meaning: str = ""
    """What it is, in a sentence; `{top_keys}` stands for a fact of the cells."""
    leads: str = ""
    """What a method does that is better by it: `is faster than`."""
    center: Center = Center.FACTORS
    more_is_better: bool = False
    bounds: tuple[float, float] = (0.0, math.inf)
    """The least and the greatest value that there can be; an interval of sums ends there."""
    enough: int = ENOUGH
    """Replicates from which on sums have an interval; of fewer they have a band."""
    about: str = ""
    """The counter that is read, where the name does not say."""
    is_rounding: bool = False
    """Whether it is of the size of rounding errors, and is written with powers of ten."""
    is_complement: bool = False
    """Whether it is 1 less another figure: an axis on which less is better, and no column of its own."""

    @property
    def column(self) -> str:
        """The name of its column in a CSV or a frame: the name and the unit."""
        return f"{self.name}{_SUFFIX.get(self.unit, '')}"

    @property
    def grows(self) -> bool:
        """Whether its growth with length is fitted: times, bytes and energies are powers of N."""
        return self.unit in {Unit.SECONDS, Unit.BYTES, Unit.JOULES}

    @property
    def is_replicated(self) -> bool:
        """Whether every replicate has its own."""
        return self.center is not Center.ONCE

    @property
    def verb(self) -> str:
        """The verb between a method that is better by it and another one: `is faster than`."""
        return self.leads or f"has {'more' if self.more_is_better else 'less'} {self.title} than"

    def values(self, cell: CellSummary | None) -> Values:
        """Return its finite values by replicate; none of a cell that failed."""
        found = self.read(cell) if cell is not None and cell.ok else {}
        # nearly always all are: one that is not makes the sum none
        if math.isfinite(sum(found.values())):
            return found
        return {replicate: value for replicate, value in found.items() if math.isfinite(value)}

    def estimate(self, cell: CellSummary | None) -> Estimate | None:
        """Return the number of a cell with its interval; None where it has none."""
        if cell is None:
            return None
        if self not in cell.estimates:
            cell.estimates[self] = self._estimated([*self.values(cell).values()])
        return cell.estimates[self]

    def _estimated(self, values: Sequence[float]) -> Estimate | None:
        if not values:
            return None
        if self.center is Center.ONCE:
            return Estimate.exact(values[0])
        if self.center is Center.SUMS:
            return by_sums(values, self.bounds, self.enough)
        return by_factors(values) if self.center is Center.FACTORS else by_factors([1 / value for value in values]).inverse()

    def ranked(self, cell: CellSummary | None) -> Values:
        """Return by replicate what methods are ranked by, positive and the less the better.

        0 has no ratio to anything, and the other replicates alone would be a choice among them: a cell with one such has none.
        """
        values = self.values(cell)
        if min(values.values(), default=0.0) <= 0:
            return {}
        return {replicate: 1 / value for replicate, value in values.items()} if self.more_is_better else values


def quantities(summaries: Sequence[CellSummary], run: RunInfo | None = None) -> dict[str, Quantity]:
    """Return all by name; what hangs on formulas of cost and on the roof is read only where the run is given."""
    # of every counter that was read, the source that most of its readings have: sources are never mixed
    read = (counter for summary in summaries for counter in summary.memory.counters.items())
    sources = grouped((name, counter.source) for name, counter in read if counter.bytes is not None)
    usual = [MainCounter(name, mode(found)) for name, found in sorted(sources.items())]
    shown = main_counter(summaries) or MainCounter(MEMORY, "")
    memory = _counter(MEMORY, "memory", shown, "needs less memory than")
    every = [*_TIMES, memory, *_of_work(run), *_SCORES, *(_counter(each.name, each.name, each) for each in usual)]
    return {each.name: each for each in every}


def recorded(summaries: Sequence[CellSummary], run: RunInfo | None = None) -> dict[str, Quantity]:
    """Return by name those of which at least one of these cells has a figure."""
    return {each.name: each for each in present(quantities(summaries, run).values(), summaries)}


def present(known: Iterable[Quantity], cells: Iterable[CellSummary]) -> list[Quantity]:
    """Return those of which at least one of these cells has a figure."""
    cells = list(cells)
    return [each for each in known if any(each.values(cell) for cell in cells)]


def main_quantity(workload: Workload) -> str:
    """Return the name of the figure that methods are first of all compared by: time, or the workload's own score."""
    scores = {Workload.FIDELITY: outcome.OUTPUT_ERROR, Workload.NUMERICS: outcome.ROUNDING, Workload.TRAIN: outcome.LOSS}
    return (scores | {Workload.MODEL_QUALITY: outcome.PERPLEXITY}).get(workload, TIME)


def _rate(name: str, title: str, unit: Unit, amount: Callable[[CellSummary], float], meaning: str, leads: str) -> Quantity:
    """Return what each sample has so much of, over its time."""

    def read(cell: CellSummary) -> Values:
        much = amount(cell)
        return {replicate: much / time for replicate, time in cell.times.items()} if much else {}

    return Quantity(name, title, unit, read, meaning, leads, Center.RATES, more_is_better=True)


def _of_work(run: RunInfo | None) -> list[Quantity]:
    """Return what is read off by the formulas of a method's cost, which is stated for the problem's batch and grows with it."""
    costs = run.costs if run else {}

    def per_sample(of: Callable[[Cost], float]) -> Callable[[CellSummary], float]:
        return lambda cell: of(costs[cell.cell.key]) / cell.cell.problem.B if cell.cell.key in costs else 0.0

    def floor(cell: CellSummary) -> float:
        at = placed(cell, run) if run else None
        return at.floor_seconds / cell.B if at else 0.0

    def share_of_dense(cell: CellSummary) -> Values:
        cost = costs.get(cell.cell.key)
        return {0: cost.exact_flops / cost.nominal_flops} if cost and cost.nominal_flops else {}

    return [
        _rate(
            "flops",
            "executed FLOPs per second",
            Unit.FLOP_RATE,
            per_sample(lambda cost: cost.executed_flops),
            "FLOPs per second: what the implementation executes by its own formula, over the time.",
            "executes more FLOPs per second than",
        ),
        _rate(
            "traffic",
            "least traffic per second",
            Unit.BYTE_RATE,
            per_sample(lambda cost: cost.traffic_bytes),
            "Traffic: the bytes of each input and output moved once, over the time.",
            "moves more bytes per second than",
        ),
        _rate(
            ROOF,
            "share of the roof",
            Unit.SHARE,
            floor,
            "Of the roof: the least time that executed FLOPs and least traffic take at the speed of a large matrix product and "
            "a large copy, the highest measured on this machine, divided by the time.",
            "comes nearer to the roof than",
        ),
        Quantity(
            "flops_of_dense",
            "FLOPs of dense",
            Unit.SHARE,
            share_of_dense,
            "FLOPs of dense: those that the definition needs, hashing and the like included, over those of dense attention.",
            "needs fewer FLOPs than",
            center=Center.ONCE,
        ),
    ]


def _counter(name: str, title: str, counter: MainCounter, leads: str = "") -> Quantity:
    def read(cell: CellSummary) -> Values:
        value = counter.per_sample(cell)
        return {} if value is None else {0: value}

    about = "" if name == counter.name else counter.name
    return Quantity(name, title, Unit.BYTES, read, leads=leads, center=Center.ONCE, about=about)


def _score(name: str, title: str, meaning: str, leads: str, **more: Any) -> Quantity:  # noqa: ANN401 - fields of a Quantity
    about: dict[str, Any] = {"unit": Unit.PLAIN, "center": Center.SUMS, **more}
    return Quantity(name, title, read=lambda cell: cell.scores.get(name, {}), meaning=meaning, leads=leads, **about)


def _complement(name: str, title: str, of: str, leads: str, enough: int = ENOUGH) -> Quantity:
    """Return what is left of a share: an axis on which less is better."""

    def read(cell: CellSummary) -> Values:
        return {replicate: 1 - value for replicate, value in cell.scores.get(of, {}).items()}

    return Quantity(name, title, Unit.SHARE, read, "", leads, Center.SUMS, bounds=(0.0, 1.0), enough=enough, is_complement=True)


_part_of_time = partial(_score, unit=Unit.SHARE, center=Center.FACTORS)
_share = partial(_score, unit=Unit.SHARE, more_is_better=True, bounds=(0.0, 1.0))
_rounding = partial(_score, is_rounding=True)
_learnt = partial(_score, enough=SEEDS)

_TIMES = (
    Quantity(TIME, "time", Unit.SECONDS, lambda cell: cell.times, leads="is faster than"),
    _score(
        outcome.FIRST_CALL,
        "first call",
        "First call: the whole batch once in a fresh process, with what it compiles, tunes and allocates.",
        "has a shorter first call than",
        unit=Unit.SECONDS,
        center=Center.FACTORS,
    ),
    _part_of_time(
        outcome.ATTENTION_SHARE,
        "share of the attention",
        "Share of the attention: of the time of a whole model's call, what its layers spend on q, k and v, without the "
        "projections; the median of three calls. The rest is what no other attention can save.",
        "leaves more of the time to the rest of the model than",
    ),
    _part_of_time(
        outcome.SELECTION_SHARE,
        "share of choosing",
        "Share of choosing: of the time of a forward, what the method takes to choose its buckets, codes, blocks or keys, on "
        "the same inputs; by medians of calls in turns. The rest is attention over what was chosen.",
        "spends less of its time on choosing than",
    ),
    Quantity(
        ENERGY,
        "energy",
        Unit.JOULES,
        lambda cell: {replicate: joules * cell.per_sample for replicate, joules in cell.scores.get(ENERGY, {}).items()},
        "Energy: joules from the first timed sample to the last, by the counter of the whole GPU (NVML) or of the processor's "
        "packages (RAPL), shared out among the samples of the batch. What passes between timed calls, idle power and other "
        "processes there are included; nothing is subtracted.",
        "needs less energy than",
    ),
    _rate(
        "tokens",
        "tokens per second",
        Unit.TOKENS,
        lambda cell: cell.tokens / cell.B,
        "Tokens per second: those that go in, without padding, or of decoding those that come out, over the time.",
        "makes more tokens per second than",
    ),
    _rate(
        "throughput",
        "sequences per second",
        Unit.SEQUENCES,
        lambda _: 1.0,
        "Sequences per second: samples of the batch over the time.",
        "makes more sequences per second than",
    ),
)
_SCORES = (
    _counter(STATE_BYTES, "state of one sequence", STATE, "keeps a smaller state than"),
    _share(
        outcome.MASS_RECALL,
        "mass recall",
        "Mass recall: of the weight that exact attention gives to the {top_keys} top keys of a query, the share that lies on "
        "keys to which the method gives a positive weight; mean over queries.",
        "finds more of the exact attention than",
    ),
    _share(
        outcome.TOP_OVERLAP,
        "top overlap",
        "Top overlap: of the {top_keys} keys to which exact attention gives most, the share that is among the {top_keys} to "
        "which the method gives most; mean over queries.",
        "prefers more of the exact top keys than",
    ),
    _score(
        outcome.COSINE,
        "cosine",
        "Cosine: of the angle between o and o*, the outputs of the method and of exact attention; mean over queries.",
        "is nearer to the exact output in direction than",
        more_is_better=True,
        bounds=(-1.0, 1.0),
    ),
    _score(
        outcome.OUTPUT_ERROR,
        "output error",
        "Output error: ‖o - o*‖ / ‖o*‖, o* by exact attention on the same inputs.",
        "has a smaller error than",
    ),
    _complement("missed_mass", "missed mass (1 - recall)", outcome.MASS_RECALL, "misses less of the exact attention than"),
    _rounding(
        outcome.ROUNDING,
        "rounding",
        "Rounding: ‖o - o*‖ / ‖o*‖ of a row, o* by the method's own definition in float64 on the same inputs; root mean square "
        "over rows from all parts of the sequence.",
        "is rounded less than",
    ),
    _rounding(
        outcome.WORST_ROW,
        "worst row",
        "Worst row: the same of the row that is off the most, mean of replicates.",
        "has a better worst row than",
    ),
    _rounding(
        outcome.GRADIENT_ROUNDING,
        "gradient rounding",
        "Gradient rounding: the same of the gradients of a random projection of some late rows, each head of an input and each "
        "parameter in the place of a row; empty where there is no backward.",
        "has gradients that are rounded less than",
    ),
    _rounding(
        outcome.DRIFT,
        "late over early",
        "Late over early: the rounding of rows in the last quarter of the tokens over that in the first.",
        "drifts less than",
    ),
    _rounding(
        outcome.BATCH_DIFFERENCE,
        "alone or in a batch",
        "Alone or in a batch: ‖o - o'‖ / ‖o'‖ of one sample alone and within its batch; 0 is bit for bit.",
        "depends less on its batch than",
    ),
    _rounding(
        outcome.STEP_DIFFERENCE,
        "by steps or at once",
        "By steps or at once: the same of the last 64 tokens decoded one by one, and attended all at once.",
        "differs less by steps than",
    ),
    _rounding(
        outcome.RUN_DIFFERENCE,
        "run to run",
        "Run to run: the same of four calls on the same inputs, outputs and gradients, the most; 0 is bit for bit.",
        "differs less from run to run than",
    ),
    _score(
        outcome.DETERMINISTIC_COST,
        "deterministic, time",
        "Deterministic, time: of a call with torch's deterministic algorithms over one without, in turns.",
        "pays less for determinism than",
        unit=Unit.FACTOR,
    ),
    _learnt(
        outcome.LOSS,
        "held-out loss",
        "Held-out loss: cross-entropy of the held-out sequences after the last update, nats per token that is judged.",
        "has learnt to a smaller loss than",
        unit=Unit.NATS,
    ),
    _share(
        outcome.ACCURACY,
        "accuracy",
        "Accuracy: the share of the judged tokens of the held-out sequences whose most likely value is the right one.",
        "is right more often than",
        enough=SEEDS,
    ),
    _complement("wrong", "wrong answers (1 - accuracy)", outcome.ACCURACY, "is wrong less often than", enough=SEEDS),
    _learnt(
        outcome.ERROR_RATE,
        "error rate",
        "Error rate: symbols to insert, to leave out or to replace in what is written down of the held-out utterances, over "
        "the symbols that were said; less is better, and it may be above 100 %.",
        "makes fewer errors than",
        unit=Unit.SHARE,
    ),
    _learnt(
        outcome.PERPLEXITY,
        "perplexity",
        "Perplexity: exp of the mean cross-entropy of a text that was held out, per token.",
        "has a smaller perplexity than",
    ),
    _learnt(
        outcome.DIVERGENCE,
        "divergence from its own",
        "Divergence from its own: KL of what the model says with its own attention from what it says with the method, mean "
        "over the tokens of a text that was held out.",
        "says more nearly what the model said by itself than",
        unit=Unit.NATS,
    ),
    _share(
        outcome.MQAR,
        "recall of pairs",
        "Recall of pairs: tokens are read with another each, up to N in all, and come again in another order; the share after "
        "which the model holds the right one for the likeliest.",
        "recalls more pairs than",
        enough=SEEDS,
    ),
    _share(
        outcome.NEEDLE,
        "needle found",
        "Needle found: random tokens stand somewhere in a text of N; when their first half comes again at its end, the share "
        "of the second half that the model holds for the likeliest; depths from the beginning to the end.",
        "finds more of the needle than",
        enough=SEEDS,
    ),
    _learnt(
        outcome.BITS,
        "bits per dimension or byte",
        "Bits: the loss over ln 2, per dimension of an image or per byte of a text.",
        "needs fewer bits than",
        unit=Unit.BITS,
    ),
)
