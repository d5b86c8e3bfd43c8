"""The sentence of result: who is ahead, and from which length on; or that it cannot be told, and why."""

from collections import Counter
from collections.abc import Iterable

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.headline import Ahead, Foremost, Statement, Tied, Untold, Why, is_exact
from attnbench.analyze.headline_learning import Learning
from attnbench.analyze.metric import TIME, compared_by
from attnbench.analyze.sections import Section
from attnbench.analyze.statistics import ENOUGH
from attnbench.report.conditions import short_machine
from attnbench.report.findings import Findings
from attnbench.report.headline.learning import learning_place, learning_words
from attnbench.report.headline.words import Said, ahead, foremost, tied, verbs
from attnbench.report.questions.fidelity.metrics import main_metric
from attnbench.report.text.names import one_line, shorten
from attnbench.report.text.statuses import short
from attnbench.schema.cell import Workload
from attnbench.schema.outcome import LOSS

_WORKLOADS = {
    Workload.FORWARD: "forward",
    Workload.FORWARD_BACKWARD: "forward+backward",
    Workload.DECODE: "decoding, per token",
    Workload.DECODE_TOTAL: "decoding, per sequence",
    Workload.FIDELITY: "fidelity",
    Workload.NUMERICS: "numerics",
    Workload.TRAIN: "training",
    Workload.GENERATE: "generating, per sequence",
}
_Compared = Ahead | Foremost | Tied | Untold
_QUALITY = " Speed only; quality is not compared."
_CONDITIONS = 80
"""Letters of them, at most."""


def headline(findings: Findings) -> str:
    """The most telling sentence of a run: plain text on one line, never empty."""
    return headlines(findings)[0]


def headlines(findings: Findings) -> list[str]:
    """One a section, the most telling first; of a run without any number, one in all."""
    if not findings.sections or not any(cell.ok for cell in findings.summaries):
        return [_nothing(findings)]
    return [sentence(findings, section, statement) for section, statement in findings.statements]


def sentence(findings: Findings, section: Section, found: Statement) -> str:
    """What a section amounts to, under which conditions, and where that was measured."""
    if isinstance(found, Learning):
        return _learning(findings, section, found)
    timed = compared_by(section.workload) == TIME
    said = _said(findings, section, found)
    what = ", ".join(
        (_WORKLOADS.get(section.workload, section.workload.value), section.mask, shorten(section.conditions, _CONDITIONS))
    )
    machine = f", on {short_machine(findings)}" if timed else ""
    text = one_line(f"{_caution(found)}{said.main} ({what}){machine}{said.tail}.")
    quality = _QUALITY if timed and not all(is_exact(section, label) for label in _compared(found)) else ""
    return f"{text[0].upper()}{text[1:]}{quality}"


def _learning(findings: Findings, section: Section, found: Learning) -> str:
    """Of quality, which the machine has no part in; what became of the others."""
    failed = _statuses(cell for cell in section.summaries if not cell.ok)
    without = f"; without a loss: {failed}" if failed else ""
    text = one_line(f"{learning_place(section, found)}: {learning_words(found, findings.names)}{without}.")
    return f"{text[0].upper()}{text[1:]}"


def _said(findings: Findings, section: Section, found: _Compared) -> Said:
    names, metric = findings.names, compared_by(section.workload)
    match found:
        case Ahead():
            said = ahead(found, names)
            return Said(said.main, said.tail + _error(section, found.versus.of, found.best.N))
        case Foremost():
            said = foremost(found, names, metric)
            return Said(said.main, said.tail + _error(section, found.label, found.best.N))
        case Tied():
            return tied(found, names, metric)
        case Untold():
            return _untold(findings, section, found, metric)


def _error(section: Section, label: str, N: int) -> str:
    """How far the output is from the exact one, or from the definition, where that is what was measured."""
    cell = section.at(label, N)
    if section.workload.is_timed or cell is None:
        return ""
    metric = main_metric(section.workload)
    return f": {metric.name} {metric.text(cell)} at N = {N:,}"


def _caution(found: _Compared) -> str:
    """What is to be said before anything that rests on few replicates."""
    match found:
        case Ahead():
            count = found.versus.crossover.replicates
        case Foremost() | Tied():
            count = found.best.replicates
        case Untold():
            return ""
    if count >= ENOUGH:
        return ""
    if count == 1:
        return "cannot tell from one replicate; as far as it goes, "
    claim = not isinstance(found, Tied) or found.over is not None
    return f"first look ({count} replicates){', not certain' if claim else ''}: "


def _compared(found: _Compared) -> tuple[str, ...]:
    """The methods of which one is said to be ahead of another."""
    match found:
        case Ahead():
            return found.versus.of, found.versus.over
        case Foremost():
            return *found.best.labels, *found.best.behind
        case Tied(over=str(over)):
            return *found.best.labels, over
    return ()


def _untold(findings: Findings, section: Section, found: Untold, metric: str) -> Said:
    """Why nothing can be compared, and what became of the others."""
    if len(section.series) == 1 and found.labels:
        return Said(f"nothing to compare: {findings.names[found.labels[0]]} is the only method")
    number = {TIME: "time", LOSS: "loss"}.get(metric, "figure")
    why = {
        Why.NOTHING: f"no cell gave a {number}",
        Why.ALONE: f"only {findings.names[found.labels[0]]} gave a {number}" if found.labels else "",
        Why.APART: f"no two methods gave a {number} at the same length",
    }
    failed = _statuses(cell for cell in section.summaries if not cell.ok)
    tail = f"; without a number: {failed}" if failed else ""
    return Said(f"cannot tell which {verbs(metric).most}: {why[found.why]}", tail)


def _nothing(findings: Findings) -> str:
    """Of a run without any number."""
    cells = findings.summaries
    if not cells:
        return "Nothing was measured: the run has no cells."
    which = (
        "the only cell of the run gave no number" if len(cells) == 1 else f"none of the run's {len(cells):,} cells has a number"
    )
    return one_line(f"Nothing can be told: {which} ({_statuses(cells)}).")


def _statuses(cells: Iterable[CellSummary]) -> str:
    """`OOM 12, wrong 3`: the most frequent first."""
    counts = Counter(short(cell.status) for cell in cells)
    return ", ".join(f"{status} {count}" for status, count in counts.most_common())
