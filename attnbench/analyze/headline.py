"""Sum up a section: who is best at the longest common length, and over which lengths it leads the baseline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby

from attnbench.analyze.best import Best, Contest
from attnbench.analyze.crossover import Crossing, Lead, Versus
from attnbench.analyze.quantities import SEEDS, TIME, Quantity, main_quantity, quantities
from attnbench.analyze.sections import Section
from attnbench.analyze.speedup import baseline
from attnbench.analyze.statistics import by_sums
from attnbench.schema.cell import Workload
from attnbench.schema.outcome import OUTPUT_ERROR

NEAR = 0.05
"""Nats per judged token: a model reaches a loss if it stays at most so far above it."""
_TELLING = (
    *(Workload.TRAIN, Workload.FORWARD_BACKWARD, Workload.FORWARD, Workload.BACKWARD, Workload.PREFILL, Workload.GENERATE),
    *(Workload.MODEL_PREFILL, Workload.MODEL_TRAIN, Workload.MODEL_DECODE, Workload.MODEL_QUALITY),
    *(Workload.DECODE, Workload.VERIFY, Workload.DECODE_TOTAL, Workload.FIDELITY, Workload.NUMERICS),
)


class Standing(StrEnum):
    """The place of the loss of a method beside that of the baseline."""

    BELOW = "below"
    REACHES = "reaches"
    ABOVE = "above"
    UNTOLD = "untold"


@dataclass(frozen=True)
class Reach:
    """Neighbouring lengths at which a method leads the baseline, and the crossing that they begin with, where there is one."""

    over: str
    led: tuple[int, ...]
    start: Crossing | None


@dataclass(frozen=True)
class Statement:
    """A statement holds what there is to say; without `best` nothing can be compared."""

    quantity: Quantity
    labels: tuple[str, ...]
    """The methods that have a figure at some length."""
    replicates: int = 0
    """Replicates, in training seeds, of the compared cell that has the fewest."""
    best: Best | None = None
    """At the longest of the lengths at which the most methods have a figure."""
    reach: Reach | None = None
    """Where the best leads the baseline; None where it is the baseline, or does not lead it."""
    base: str = ""
    """In training, the method whose loss the others are held against."""
    standings: Mapping[str, Standing] = field(default_factory=dict)
    """In training, by label."""


def ranked(sections: Sequence[Section], *, causal_first: bool) -> list[tuple[Section, Statement]]:
    """Return all sections with what they amount to, the most telling first.

    They are ordered by what was measured and never by what came out: first those where something can be compared, then by
    workload, then the mask that the suite names first, then the most methods.
    """

    def key(each: tuple[Section, Statement]) -> tuple[bool, int, bool, int]:
        section, said = each
        return said.best is None, _TELLING.index(section.workload), section.causal is not causal_first, -len(said.labels)

    return sorted(((section, statement(section)) for section in sections), key=key)


def statement(section: Section) -> Statement:
    """Compare a section by its main figure; the baseline is a method that the suite names, else the strongest exact softmax."""
    quantity = quantities(section.summaries)[main_quantity(section.workload)]
    having = [label for label, series in section.series.items() if any(quantity.values(cell) for cell in series)]
    if quantity.name == OUTPUT_ERROR:
        # that exact attention is exact is no finding
        having = [label for label in having if section.series[label][0].cell.method not in section.exact] or having
    contest = Contest(section, quantity, tuple(having))
    counts = {N: sum(bool(quantity.values(section.at(label, N))) for label in having) for N in section.lengths}
    N = max(counts, key=lambda N: (counts[N], N), default=0)
    best = contest.best(N) if counts.get(N, 0) > 1 else None
    if best is None:
        return Statement(quantity, contest.labels)
    rivals = [label for label in having if label in {*best.labels, *best.behind}]
    few = min(len(quantity.values(section.at(label, N))) for label in rivals)
    base, first = baseline(section), best.labels[0]
    if section.workload is Workload.TRAIN:
        if base is None or base not in rivals:
            base = first
        standings = {label: _standing(contest, label, base, N) for label in rivals if label != base}
        return Statement(quantity, contest.labels, few, best, base=base, standings=standings)
    if base in {None, first} and len(rivals) == 2:
        base = next(label for label in rivals if label != first)
    if quantity.name != TIME or base is None or base in best.labels:
        return Statement(quantity, contest.labels, few, best)
    found = Versus(section, first, base, quantity).crossover
    # the neighbouring lengths that it leads at, around the last one that was compared up to N
    at = max((length for length in found.lengths if length <= N), default=None)
    runs = ([N for N, _ in run] for lead, run in groupby(found.leads.items(), key=lambda each: each[1]) if lead is Lead.OF)
    led = next((run for run in runs if at in run), None)
    if led is None:
        return Statement(quantity, contest.labels, few, best)
    start = next((each for each in found.crossings if each.gained and each.bracket[1] == led[0]), None)
    return Statement(quantity, contest.labels, min(few, found.replicates), best, Reach(base, tuple(led), start))


def _standing(contest: Contest, label: str, base: str, N: int) -> Standing:
    """Judge a loss by the 95 % interval of the mean difference, paired by seed; below or above it lies by more than NEAR."""
    ours, theirs = (contest.quantity.values(contest.section.at(each, N)) for each in (label, base))
    differences = [ours[seed] - theirs[seed] for seed in ours.keys() & theirs.keys()]
    if len(differences) < SEEDS:
        return Standing.UNTOLD
    found = by_sums(differences, enough=SEEDS)
    low, high = found.ends
    if high < 0 and found.value < -NEAR:
        return Standing.BELOW
    if high <= NEAR:
        return Standing.REACHES
    return Standing.ABOVE if low > 0 and found.value > NEAR else Standing.UNTOLD
