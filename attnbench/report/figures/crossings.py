"""The crossover figure: every method that changes places with the baseline, a panel a section."""

from attnbench.analyze.metric import TIME, Metric, metrics
from attnbench.analyze.sections import Section
from attnbench.analyze.versus import Versus, baseline
from attnbench.report.conditions import conditions, device_name, replication
from attnbench.report.drawing.caption import text
from attnbench.report.drawing.sheet import Sheet
from attnbench.report.figures.kinds import CannotDrawError, Drawing, by_workload
from attnbench.report.findings import Findings
from attnbench.report.questions.crossover.figure import crossover_board
from attnbench.report.questions.crossover.table import lines
from attnbench.schema.cell import Workload


def crossover(findings: Findings, sheet: Sheet) -> list[Drawing]:
    """By time, a figure a workload; of more methods than fit into a panel those that cross come first."""
    time = metrics(findings.summaries).get(TIME)
    if time is None:
        raise CannotDrawError("no cell of the run has a time")
    pairs = {
        w: _pairs(findings, sections, time) for w, sections in by_workload(findings, lambda workload: workload.is_timed).items()
    }
    found = [_drawing(findings, workload, members, sheet) for workload, members in pairs.items() if members]
    if not found:
        raise CannotDrawError(
            "no exact softmax attention has times beside another method; the suite's report.baselines may name another"
        )
    return found


def _pairs(findings: Findings, sections: list[Section], time: Metric) -> list[Versus]:
    """Of each section, every method against its baseline."""
    bases = [(section, baseline(section, findings.run.suite.report.baselines)) for section in sections]
    return [Versus(section, label, base, time) for section, base in bases if base for label in section.series if label != base]


def _drawing(findings: Findings, workload: Workload, pairs: list[Versus], sheet: Sheet) -> Drawing:
    shown = [versus for section in dict.fromkeys(id(v.section) for v in pairs) for versus in _first(pairs, section, sheet)]
    cells = [cell for versus in shown for cell in versus.cells]
    left = len(pairs) - len(shown)
    return Drawing(
        workload.value,
        crossover_board(findings, shown, titled=sheet.titled),
        text(
            [
                f"{workload.value}: time of each method over that of its baseline against length N, both axes logarithmic; "
                f"below 1 the method is ahead. {device_name(findings)}.",
                "Thin bars: 95 % interval of a ratio. Thick bars on the line at 1: 95 % interval of the N at which the two "
                "change places, with N above it; faint and without N, the lengths between which they do.",
                *([f"Not drawn: {left} pairs more, which change places least."] if left else []),
                *(line.strip() for line in lines(findings, shown)),
                *replication(cells),
                *conditions(findings, cells),
            ]
        ),
    )


def _first(pairs: list[Versus], section: int, sheet: Sheet) -> list[Versus]:
    """As many as fit into a panel: those that cross, those that can be compared, the others; each in suite order."""
    own = [versus for versus in pairs if id(versus.section) == section]
    ranked = sorted(own, key=lambda versus: (not versus.crossover.crossings, not versus.crossover.lengths))
    kept = {id(versus) for versus in ranked[: sheet.methods]}
    return [versus for versus in own if id(versus) in kept]
