"""What a section amounts to: who is ahead and from which length on, or why that cannot be told."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from attnbench.analyze.best import Best, best
from attnbench.analyze.crossover import Lead
from attnbench.analyze.headline_learning import Learning, learners, learning
from attnbench.analyze.metric import TIME, Metric, compared_by, metrics
from attnbench.analyze.sections import Section
from attnbench.analyze.speedup import strongest_exact
from attnbench.analyze.versus import Versus, baseline
from attnbench.schema.cell import Workload
from attnbench.schema.outcome import OUTPUT_ERROR

_TELLING = (
    *(Workload.TRAIN, Workload.FORWARD_BACKWARD, Workload.FORWARD, Workload.GENERATE),
    *(Workload.DECODE, Workload.DECODE_TOTAL, Workload.FIDELITY, Workload.NUMERICS),
)
_Leads = Mapping[int, Lead]


@dataclass(frozen=True)
class Ahead:
    """`versus.of` leads at the longest length at which it can be told; the crossover says where else."""

    versus: Versus
    best: Best


@dataclass(frozen=True)
class Reach:
    """Neighbouring lengths at which somebody leads, among those that were compared."""

    led: tuple[int, ...]
    compared: tuple[int, ...]


@dataclass(frozen=True)
class Foremost:
    """One method leads all others."""

    label: str
    reach: Reach
    best: Best


@dataclass(frozen=True)
class Tied:
    """The best cannot be told apart; all of them lead `over`, where there is such a one."""

    best: Best
    over: str | None
    reach: Reach


class Why(StrEnum):
    """Nothing can be compared."""

    NOTHING = "nothing"
    """No method has figures."""
    ALONE = "alone"
    """One has."""
    APART = "apart"
    """Several have, and no two of them at one length."""


@dataclass(frozen=True)
class Untold:
    """There is nothing to compare; `labels` are the methods that have figures."""

    why: Why
    labels: tuple[str, ...]


Statement = Ahead | Foremost | Tied | Learning | Untold


def ranked(sections: Sequence[Section], named: Sequence[str], *, causal_first: bool) -> list[tuple[Section, Statement]]:
    """All sections with what they amount to, the most telling first.

    Chosen by what was measured and never by what came out: those where something can be compared; what was learnt
    before speed, with the backward pass before without, decoding after, scores last; the mask that the suite names first;
    the most methods.
    """
    found = [(section, statement(section, named)) for section in sections]

    def key(each: tuple[Section, Statement]) -> tuple[bool, int, bool, int]:
        section, said = each
        methods = sum(any(cell.ok for cell in series) for series in section.series.values())
        telling = (*_TELLING, section.workload).index(section.workload)
        return isinstance(said, Untold), telling, section.causal is not causal_first, -methods

    return sorted(found, key=key)


def statement(section: Section, named: Sequence[str] = ()) -> Statement:
    """By time, of fidelity by the error of the output, of numerics by rounding, of training by the loss that is left.

    The baseline is a method that the suite names, else the strongest exact one. The method that is best at the longest
    length in common, against the baseline where that is another one, else against all others; of training all of them
    against the baseline.
    """
    if section.workload is Workload.TRAIN:
        return learning(section, named) or _untold(learners(section))
    metric = metrics(section.summaries).get(compared_by(section.workload))
    if metric is None:
        return _untold(())
    labels = _contenders(section, metric)
    N = _common_length(section, labels, metric)
    if N is None:
        return _untold(labels)
    found = best(section, labels, N, metric)
    base = baseline(section, named) if metric.name == TIME else None
    rival = _rival(found, base, labels)
    pair = _ahead(Versus(section, found.labels[0], rival, metric), found) if rival is not None else None
    if pair is not None:
        return pair
    return _foremost(section, labels, found, metric) if found.alone else _tied(section, base, found, metric)


def is_exact(section: Section, label: str) -> bool:
    """Whether a method, where it has figures, is exact softmax attention."""
    return strongest_exact(section.series[label]) is not None


def _untold(labels: tuple[str, ...]) -> Untold:
    if not labels:
        return Untold(Why.NOTHING, ())
    return Untold(Why.ALONE if len(labels) == 1 else Why.APART, labels)


def _contenders(section: Section, metric: Metric) -> tuple[str, ...]:
    """All methods with figures; that exact attention has all of the exact attention is no finding."""
    found = [label for label, series in section.series.items() if any(metric.of(cell) for cell in series)]
    inexact = [label for label in found if metric.name != OUTPUT_ERROR or not is_exact(section, label)]
    return tuple(inexact or found)


def _common_length(section: Section, labels: Sequence[str], metric: Metric) -> int | None:
    """The longest of the lengths at which the most have figures; None where no two have."""
    counts = {N: sum(bool(metric.of(section.at(label, N))) for label in labels) for N in section.lengths}
    N = max(counts, key=lambda N: (counts[N], N))
    return N if counts[N] > 1 else None


def _rival(found: Best, base: str | None, labels: Sequence[str]) -> str | None:
    """Whom the best is compared with, length by length; None where it is all others."""
    first, *ties = found.labels
    if ties:
        # what cannot be told apart at the longest length may well be at others
        two = len(ties) == 1 and (len(labels) == 2 or base in found.labels)
        return ties[0] if two else None
    if base is not None and base != first:
        return base
    return next(label for label in labels if label != first) if len(labels) == 2 else None


def _ahead(versus: Versus, found: Best) -> Ahead | None:
    """By who leads last; None where nobody does, or only at one length and that not the longest in common."""
    leads, told = versus.crossover.leads, versus.crossover.told
    if not told or (len(told) == 1 and not found.alone):
        return None
    if leads[told[-1]] is Lead.OVER:
        versus = Versus(versus.section, versus.over, versus.of, versus.metric)
    return Ahead(versus, found)


def _foremost(section: Section, labels: Sequence[str], found: Best, metric: Metric) -> Foremost:
    first = found.labels[0]
    leads = [_leads(section, first, label, metric) for label in labels if label != first]
    compared = tuple(N for N in section.lengths if any(N in each for each in leads))
    return Foremost(first, _reach(found.N, compared, leads), found)


def _tied(section: Section, base: str | None, found: Best, metric: Metric) -> Tied:
    over = base if base not in found.labels else None
    leads = [_leads(section, label, over, metric) for label in found.labels] if over is not None else []
    compared = tuple(N for N in section.lengths if leads and all(N in each for each in leads))
    reach = _reach(found.N, compared, leads)
    return Tied(found, over if reach.led else None, reach)


def _leads(section: Section, of: str, over: str, metric: Metric) -> _Leads:
    return Versus(section, of, over, metric).crossover.leads


def _reach(N: int, compared: tuple[int, ...], leads: Sequence[_Leads]) -> Reach:
    """As far as all lead around N; who has no figure at a length is led there."""
    led = [all(each.get(n, Lead.OF) is Lead.OF for each in leads) for n in compared]
    if N not in compared or not led[compared.index(N)]:
        return Reach((), compared)
    at = compared.index(N)
    start = next((i + 1 for i in range(at - 1, -1, -1) if not led[i]), 0)
    end = next((i for i in range(at + 1, len(compared)) if not led[i]), len(compared))
    return Reach(compared[start:end], compared)
