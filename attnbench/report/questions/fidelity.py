"""The fidelity figure: what a method keeps and how far it is off, against what it costs; two panels for each length."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.quantities import Quantity, Unit
from attnbench.analyze.sections import Section, grouped
from attnbench.analyze.statistics import Estimate, Interval
from attnbench.report.conditions import device_name, meaning, measured, replication
from attnbench.report.drawing.kinds import Drawing, by_workload, text
from attnbench.report.drawing.lines import points, second_line
from attnbench.report.drawing.panels import Panel, figures, named
from attnbench.report.drawing.sheet import Sheet
from attnbench.report.drawing.style import Look, run_looks, said, scaled, soft
from attnbench.report.drawing.ticks import number_across
from attnbench.report.findings import Findings
from attnbench.report.text.names import drawable, shorten
from attnbench.schema.cell import Cell, Workload, label
from attnbench.schema.outcome import MASS_RECALL, OUTPUT_ERROR
from attnbench.schema.units import length

_SMALLEST, _LARGEST = 2.2, 5.0
_LEAST_ERROR = 1e-3
"""What is nearer to exact is drawn there too."""
_RANDOM = "as many pairs, chosen at random"


@dataclass(frozen=True)
class Line:
    """The method with its other parameters, the swept one (empty where there is none), and cells by its rising value."""

    name: str
    swept: str
    cells: tuple[CellSummary, ...]


def lines(section: Section, N: int) -> list[Line]:
    """Join the cells of one length that differ in the swept parameter of their method; in suite order."""
    swept = swept_parameters([s.cell for s in section.summaries])
    found: dict[tuple[str, str], list[CellSummary]] = {}
    for summary in section.summaries:
        cell = summary.cell
        if cell.problem.N == N:
            # a method may have some cells without the parameter, or with a word in its place: they stand alone
            parameter = swept[cell.method] if type(cell.params.get(swept[cell.method])) in {int, float} else ""
            others = {name: value for name, value in cell.params.items() if name != parameter}
            found.setdefault((label(cell.method, others), parameter), []).append(summary)
    return [
        Line(name, parameter, tuple(sorted(cells, key=lambda s: float(s.cell.params.get(parameter, 0)))))
        for (name, parameter), cells in found.items()
    ]


def swept_parameters(cells: Sequence[Cell]) -> dict[str, str]:
    """Return by method the parameter, a number, that has the most values; empty where none has two."""
    found = {}
    for method in dict.fromkeys(cell.method for cell in cells):
        params = (param for cell in cells if cell.method == method for param in cell.params.items())
        numbers = grouped((name, value) for name, value in params if type(value) in {int, float})
        counts = {name: count for name, values in numbers.items() if (count := len(set(values))) > 1}
        found[method] = max(counts, key=lambda name: counts[name], default="")
    return found


def fidelity(findings: Findings, sheet: Sheet) -> list[Drawing]:
    """Draw what methods keep of exact attention, and how far they are off, against the FLOPs of their definition."""
    otherwise = "the run has no fidelity; its suite would say workloads: [fidelity]"
    (sections,) = by_workload(findings, lambda section: section.workload is Workload.FIDELITY, otherwise)
    looks, dense = run_looks(findings), findings.quantities["flops_of_dense"]
    recall, error = findings.quantities[MASS_RECALL], findings.quantities[OUTPUT_ERROR]
    cells = [summary for section in sections for summary in section.summaries]
    shares = [each.value for s in cells if (each := dense.estimate(s)) and each.value]
    span = min([0.5, *shares]) / 1.3, max([1.0, *shares]) * 1.3
    panels, swept = list[Panel](), list[tuple[str, str]]()
    rows = [(section, N) for section in sections for N in section.lengths]
    for row, (section, N) in enumerate(rows):
        head = f"N = {length(N)}" + (f", {section.mask}, {section.conditions}" if len(sections) > 1 else "")
        shown = []
        for line in lines(section, N):
            first = line.cells[0].cell.label
            name = shorten(findings.called(line.name) if line.swept else findings.plot_names[first], 40)
            # a method's values of one parameter are a line, with the look of the first of them
            shown.append((line, drawable(f"{name}, rising {line.swept}" if line.swept else name), looks[first]))
            if line.swept:
                swept += [(f"{line.name}: {line.swept}", str(s.cell.params[line.swept])) for s in line.cells]
        names = (*(name for _, name, _ in shown), _RANDOM)
        axes = ((recall, "mass recall of the top keys", None), (error, error.title, Unit.PLAIN))
        for column, (score, up, unit) in enumerate(axes):
            draw = partial(_draw, shown, dense, score, span)
            panels.append(Panel(head, draw, row, column, up, unit, score.name, names))
    conditions = [f"{sections[0].mask}, {sections[0].conditions}"] if len(sections) == 1 else []
    drawn = figures(panels, sheet, "fidelity: what is kept, and its cost", second_line(findings, conditions), (3.1, 2.1))
    values = grouped(dict.fromkeys(swept))
    sweeps = "; ".join(f"{name} = {', '.join(own)}" for name, own in values.items()) + ("." if swept else "")
    seen = [
        "fidelity: mass recall and output error, against the FLOPs of the definition over those of dense attention. "
        f"{device_name(findings)}.",
        meaning(recall, cells),
        f"{meaning(error, cells)} One below {_LEAST_ERROR:g} is drawn there.",
        "Dotted: as large a share of all pairs, chosen at random, keeps as large a share of the mass.",
        "Bars: the range of the replicates. Lines join a method's values of one parameter: "
        f"the larger the marker, the larger the value. {sweeps}",
        replication(cells, error),
    ]
    return [Drawing(Workload.FIDELITY.value, drawn, text(seen, measured(findings, sections)))]


def _draw(
    shown: Sequence[tuple[Line, str, Look]], dense: Quantity, score: Quantity, span: tuple[float, float], axes: Axes
) -> None:
    number_across(axes, Unit.SHARE, *span, "FLOPs, share of dense attention's")
    kept, any_points = score.name == MASS_RECALL, False
    least = 0.0 if kept else _LEAST_ERROR
    for line, name, look in shown:
        pairs = [
            (x, _at_least(least, y))
            for s in line.cells
            if (x := dense.estimate(s)) is not None and x.value and (y := score.estimate(s)) is not None
        ]
        any_points |= bool(pairs)
        # the value of the parameter rises along the line
        sizes = [_SMALLEST + (_LARGEST - _SMALLEST) * step / (len(pairs) - 1 or 1) for step in range(len(pairs))]
        points(axes, pairs, look, name, sizes=sizes if line.swept else (), joined=bool(line.swept))
    if not any_points:
        said(axes, "nothing was measured")
    if kept:
        axes.set_ylim(0, 1.08)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        random = [span[0] * (1 / span[0]) ** (step / 50) for step in range(51)]
        axes.plot(random, random, ":", color=soft(), linewidth=scaled(0.9), label=named(_RANDOM))


def _at_least(least: float, y: Estimate) -> Estimate:
    return Estimate(max(least, y.value), Interval(max(least, y.ends[0]), max(least, y.ends[1]), y.interval.kind))
