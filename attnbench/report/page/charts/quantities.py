"""What the page can put on an axis or into a column: read off a cell, with its range, and as text."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.fidelity import score, share_of_dense
from attnbench.analyze.learnt import learnt
from attnbench.analyze.main_counter import STATE, MainCounter
from attnbench.analyze.metric import USUAL
from attnbench.analyze.roofline import roof_share
from attnbench.analyze.scaling import Exponent, memory_exponent, time_exponent
from attnbench.analyze.statistics import Estimate
from attnbench.report.drawing.lines.quantity import Point
from attnbench.report.findings import Findings
from attnbench.report.questions.fidelity.metrics import FIDELITY, NUMERICS, ScoreMetric
from attnbench.report.questions.learning.table import learnt_text
from attnbench.report.text.numbers import timed
from attnbench.schema.outcome import ACCURACY, BITS, LOSS, MASS_RECALL
from attnbench.schema.units import bytes_, three_digits

_Read = Callable[[Findings, CellSummary], Point | None]
_Text = Callable[[Findings, CellSummary], str]
_Fit = Callable[[Sequence[CellSummary]], Exponent | None]


@dataclass(frozen=True)
class Quantity:
    """A figure that cells have."""

    key: str
    title: str
    unit: str
    """`s`, `B`, `%`, `tokens/s`, `nats`, `bits` or none."""
    read: _Read
    text: _Text
    fit: _Fit = lambda _: None
    per: bool = False
    """Whether the title goes on with what it is divided by: `per sample`, `per token`."""
    scales: bool = True
    """Whether it is offered against length."""
    cost: bool = False
    loss: bool = False
    """Whether it is offered as an axis where quality is weighed against cost; less is better."""


def quantities(runs: Sequence[Findings]) -> list[Quantity]:
    """Those of which some cell has a figure. Memory that was counted differently in two runs is two quantities."""
    known = [
        Quantity("time", "time", "s", _time, _time_text, time_exponent, per=True, cost=True),
        *_memories(runs),
        Quantity("state", "state of one sequence", "B", *_bytes(STATE), cost=True),
        Quantity("throughput", "throughput", "tokens/s", _throughput, _throughput_text),
        Quantity("roof", "share of the roof", "%", _roof, _roof_text),
        *(_of_score(metric) for metric in (*FIDELITY, *NUMERICS)),
        Quantity("missed_mass", "missed mass (1 - recall)", "%", _missed, lambda *_: "", scales=False, loss=True),
        *_of_training(),
        Quantity("flops_of_dense", "FLOPs of dense", "%", _dense, _dense_text, cost=True),
    ]
    cells = [(findings, summary) for findings in runs for summary in findings.summaries]
    return [quantity for quantity in known if any(quantity.read(*cell) for cell in cells)]


def _of_score(metric: ScoreMetric) -> Quantity:
    unit, weighed = "%" if metric.is_share else "", metric.is_loss and metric.key in USUAL
    return Quantity(metric.key, metric.name, unit, _score(metric.key), lambda _, s: metric.text(s), loss=weighed)


def _of_training() -> list[Quantity]:
    """The first of the losses is what quality is weighed by at first."""
    return [
        Quantity(BITS, "bits per dimension or byte", "bits", _learnt(BITS), _learnt_text(BITS), loss=True),
        Quantity(ACCURACY, "accuracy", "%", _learnt(ACCURACY), _learnt_text(ACCURACY)),
        Quantity("wrong", "wrong answers (1 - accuracy)", "%", _wrong, lambda *_: "", scales=False, loss=True),
        Quantity(LOSS, "held-out loss", "nats", _learnt(LOSS), _learnt_text(LOSS), loss=True),
    ]


def _memories(runs: Sequence[Findings]) -> list[Quantity]:
    counters = list(dict.fromkeys((f.counter.name, f.counter.source) for f in runs if f.counter))
    found = []
    for number, (name, source) in enumerate(counters):
        key = "memory" if number == 0 else f"memory_{number + 1}"
        read, text, fit = _bytes(MainCounter(name, source))
        found.append(Quantity(key, f"memory ({name})", "B", read, text, fit, per=True, cost=True))
    return found


def _point(summary: CellSummary, found: Estimate | None) -> Point | None:
    return Point(summary.cell.problem.N, found) if found is not None and math.isfinite(found.value) else None


def _time(_: Findings, summary: CellSummary) -> Point | None:
    return _point(summary, summary.time)


def _time_text(_: Findings, summary: CellSummary) -> str:
    return timed(summary.time) if summary.time is not None else ""


def _bytes(counter: MainCounter) -> tuple[_Read, _Text, _Fit]:
    def read(_: Findings, summary: CellSummary) -> Point | None:
        value = counter.per_sample(summary)
        return _point(summary, None if value is None else Estimate.exact(value))

    def text(_: Findings, summary: CellSummary) -> str:
        value = counter.per_sample(summary)
        return "" if value is None else bytes_(value)

    return read, text, lambda series: memory_exponent(series, counter)


def _rate(summary: CellSummary, per_sample: float) -> Point | None:
    """Something of which each sample has so much, by time."""
    return _point(summary, summary.time.under(per_sample) if summary.time is not None else None)


def _throughput(_: Findings, summary: CellSummary) -> Point | None:
    return _rate(summary, summary.tokens / summary.B)


def _throughput_text(_: Findings, summary: CellSummary) -> str:
    if not summary.median:
        return ""
    rate = summary.tokens / summary.median
    return f"{round(rate, 2 - math.floor(math.log10(rate))):,.0f}" if rate >= 1000 else three_digits(rate)


def _roof(findings: Findings, summary: CellSummary) -> Point | None:
    share = roof_share(summary, findings.run)
    return _rate(summary, share.floor_seconds / summary.B) if share else None


def _roof_text(findings: Findings, summary: CellSummary) -> str:
    share = roof_share(summary, findings.run)
    return f"{three_digits(100 * share.fraction)}%" if share else ""


def _score(metric: str) -> _Read:
    def read(_: Findings, summary: CellSummary) -> Point | None:
        return _point(summary, score(summary, metric))

    return read


def _missed(_: Findings, summary: CellSummary) -> Point | None:
    return _rest(summary, score(summary, MASS_RECALL))


def _wrong(_: Findings, summary: CellSummary) -> Point | None:
    return _rest(summary, learnt(summary, ACCURACY))


def _rest(summary: CellSummary, share: Estimate | None) -> Point | None:
    return _point(summary, share.rest() if share is not None else None)


def _learnt(metric: str) -> _Read:
    def read(_: Findings, summary: CellSummary) -> Point | None:
        return _point(summary, learnt(summary, metric))

    return read


def _learnt_text(metric: str) -> _Text:
    return lambda _, summary: learnt_text(summary, metric)


def _dense(findings: Findings, summary: CellSummary) -> Point | None:
    """Only beside fidelity; of a cell that is timed it says less than its time."""
    share = share_of_dense(summary, findings.run) if summary.ok and summary.scores else None
    return _point(summary, None if share is None else Estimate.exact(share))


def _dense_text(findings: Findings, summary: CellSummary) -> str:
    found = _dense(findings, summary)
    return f"{three_digits(100 * found.value)}%" if found else ""
