"""The tables of a run: one row a method, and columns that are declared; each kind of table is one function of a section."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from attnbench.analyze.best import Contest
from attnbench.analyze.cells import CellSummary
from attnbench.analyze.quantities import MEMORY, ROOF, STATE_BYTES, TIME, Quantity, Unit, main_quantity, present
from attnbench.analyze.scaling import exponent
from attnbench.analyze.sections import Section, longest, stops
from attnbench.analyze.speedup import baselines, speedup, without_cache
from attnbench.report.conditions import meaning, replication
from attnbench.report.findings import Findings
from attnbench.report.questions.learning.words import by_length, model_of, qualities, where
from attnbench.report.questions.published.table import published_tables
from attnbench.report.text.names import one_line
from attnbench.report.text.numbers import exponent_text, factor, figure_of, heading, scaled, shared_scale, shown, written
from attnbench.report.text.statuses import short
from attnbench.report.text.table import Table
from attnbench.schema.cell import Workload
from attnbench.schema.outcome import FIDELITY_SCORES, LOSS, NUMERICS_SCORES, QUALITY_SCORES
from attnbench.schema.training import Task
from attnbench.schema.units import length

BOLD = "Bold: the best, and what cannot be told from it."
_GROUPS = {
    Workload.FIDELITY.value: FIDELITY_SCORES,
    Workload.NUMERICS.value: NUMERICS_SCORES,
    Workload.MODEL_QUALITY.value: QUALITY_SCORES,
}
"""Kinds that stand for several figures, by name."""


@dataclass(frozen=True)
class Column:
    """One column of a table of methods: its head, and by label what stands in each row and which are printed bold."""

    head: str
    texts: Mapping[str, str]
    best: Set[str] = frozenset()


def tables(findings: Findings) -> list[Table]:
    """Return the tables that the suite asks for, kind by kind, as far as the run has them."""
    return [table for kind in findings.run.suite.report.tables for table in of_kind(findings, kind)]


def of_kind(findings: Findings, kind: str) -> list[Table]:
    """Return the tables of one kind: a summary, speed-ups, a figure by length, a group of scores, or what others published."""
    if kind == "published":
        return published_tables(findings)
    found: list[Table] = []
    for section in findings.sections:
        if kind == "summary":
            found += summaries(findings, section)
        elif kind == "speedup":
            found += speedup_tables(findings, section) if section.workload.is_timed else []
        else:
            known = [findings.quantities[name] for name in _GROUPS.get(kind, (kind,))]
            found += [figure_table(findings, section, each) for each in known if findings.shows(section, each)]
    return found


def _table(findings: Findings, section: Section, title: str, columns: Sequence[Column], about: str, main: Quantity) -> Table:
    """Return a row for each method of a section, with its name and tier first; `main` is what was replicated."""
    rows, bold = [], set()
    for number, (label, series) in enumerate(section.series.items()):
        texts = (column.texts[label] for column in columns)
        rows.append((findings.names[label], findings.tier(series[0]), *texts))
        bold |= {(number, place) for place, column in enumerate(columns, 2) if label in column.best}
    headers = ("method", "tier", *(column.head for column in columns))
    notes = tuple(filter(None, (about, replication(section.summaries, main))))
    return Table(title, headers, tuple(rows), frozenset(bold), notes)


def figure_table(findings: Findings, section: Section, quantity: Quantity) -> Table:
    """Return methods by lengths: one figure, in one unit a column, with its range; a failure stands in its place."""
    contest, title, columns = Contest.of(section, quantity), heading(quantity, section.workload), []
    for N in section.lengths:
        found = {label: quantity.estimate(section.at(label, N)) for label in section.series}
        scale, sign = shared_scale([each.value for each in found.values() if each], quantity.unit)
        texts = {
            label: scaled(quantity, number, scale) if number else figure_of(quantity, section.at(label, N))
            for label, number in found.items()
        }
        best = {label for label in texts if contest.wins(label, N)}
        columns.append(Column(f"N={length(N)}{f', {sign}' if sign else ''}", texts, best))
    about = f"{meaning(quantity, section.summaries)} {BOLD}".strip()
    title = f"{title[0].upper()}{title[1:]}: {section.title}"
    return _table(findings, section, title, columns, about, quantity)


def summaries(findings: Findings, section: Section) -> list[Table]:
    """Return one row per method, compared at the longest length that most reach; of models one table for each length."""
    if section.workload is Workload.TRAIN:
        return [_training(findings, part) for part in by_length(section)]
    if section.workload is Workload.GENERATE:
        return [_generating(findings, part) for part in by_length(section)]
    return [_timed(findings, section) if section.workload.is_timed else _scored(findings, section)]


def _timed(findings: Findings, section: Section) -> Table:
    N, time = section.common_length, findings.quantities[TIME]
    kept = findings.quantities[STATE_BYTES if section.workload.keeps_state else MEMORY]
    bases = baselines(section, N) if N else []
    at = f" at {length(N)}" if N else " (nothing measured)"
    growth = {label: exponent_text(exponent(series, time)) for label, series in section.series.items()}
    columns = [
        _longest(section),
        Column("time grows as", growth),
        _at_common(section, time, at),
        _at_common(section, findings.quantities[ROOF], head="of the roof", plain=True),
        *_speedups(findings, section, N, bases, at),
        _at_common(section, kept, at, plain=True),
        _stopped(section),
    ]
    over = " and ".join(_named(findings, base) for base in bases)
    about = f"Time grows as N^x, fitted over the upper half of a method's lengths. Speed-up: over {over}." if over else ""
    return _table(findings, section, f"Summary: {section.title}", columns, f"{BOLD} {about}", time)


def _scored(findings: Findings, section: Section) -> Table:
    N, main = section.common_length, findings.quantities[main_quantity(section.workload)]
    there = present([findings.quantities[name] for name in _GROUPS[section.workload.value]], section.summaries)
    at = f" at {length(N)}" if N else " (nothing measured)"
    dense = findings.quantities["flops_of_dense"]
    columns = [
        _longest(section),
        *(_at_common(section, each, at) for each in there or [main]),
        *([_at_common(section, dense, at, plain=True)] if section.workload is Workload.FIDELITY else []),
        _stopped(section),
    ]
    about = f"{meaning(main, section.summaries)} {BOLD}"
    return _table(findings, section, f"Summary: {section.title}", columns, about, main)


def _training(findings: Findings, section: Section) -> Table:
    """Say what each method's model has learnt after its updates, and what an update costs."""
    loss = findings.quantities[LOSS]
    cells = {label: series[0] for label, series in section.series.items()}
    counts = {label: cell.facts.get("parameters") for label, cell in cells.items()}
    columns = [Column("parameters", {label: f"{n:,}" if isinstance(n, int) else "" for label, n in counts.items()})]
    for name, head in {LOSS: "loss", **qualities(section)}.items():
        columns.append(_at_common(section, findings.quantities[name], head=head))
    for name, head in {TIME: "time per update", MEMORY: "memory of an update"}.items():
        quantity, texts = findings.quantities[name], {}
        for label, cell in cells.items():
            # of the whole batch
            found = quantity.estimate(cell)
            texts[label] = shown(quantity, found.times(cell.B)) if found else "n/a" if cell.ok else ""
        columns.append(Column(head, texts))
    models = {label: cell.cell.training if cell.ok else None for label, cell in cells.items()}
    columns.append(Column("updates", {label: f"{model.updates:,}" if model else "" for label, model in models.items()}))
    about = f"{meaning(loss, section.summaries)} {BOLD}"
    return _table(findings, section, f"Training: {where(section)}", [*columns, _stopped(section)], about, loss)


def _generating(findings: Findings, section: Section) -> Table:
    """Say how many sequences and tokens come per second, and how much faster than softmax with a cache and without one."""
    (N,), time = section.lengths, findings.quantities[TIME]
    model, ok = model_of(section), section.ok_at(N)
    what = "images" if model is not None and model.task is Task.PIXELS else "sequences"
    bases = baselines(section, N)
    columns = [
        Column("B", {label: f"{ok[label].B:,}" if label in ok else "" for label in section.series}),
        _at_common(section, time, head="time per sequence"),
        _at_common(section, findings.quantities["throughput"], head=f"{what}/s"),
        _at_common(section, findings.quantities["tokens"], head="tokens/s", plain=True),
        _at_common(section, findings.quantities[STATE_BYTES], plain=True),
        *_speedups(findings, section, N, bases, ""),
        _stopped(section),
    ]
    about = f"A call makes B sequences of N tokens from nothing; its model's weights are as they were drawn. {BOLD}"
    return _table(findings, section, f"Generating: {where(section)}", columns, about, time)


def _at_common(section: Section, quantity: Quantity, at: str = "", head: str = "", *, plain: bool = False) -> Column:
    """Return a figure at the section's common length; `plain`: without its range, bold print and statuses."""
    # where nothing was measured, the longest length says why
    N, texts = section.common_length or section.lengths[-1], {}
    for label in section.series:
        cell = section.at(label, N)
        found = quantity.estimate(cell)
        if not plain:
            texts[label] = figure_of(quantity, cell)
        elif found is None:
            texts[label] = "n/a" if cell is not None and cell.ok and quantity.unit is Unit.BYTES else ""
        else:
            texts[label] = written(found.value, quantity.unit)
    contest = Contest.of(section, quantity)
    best = {label for label in texts if not plain and contest.wins(label, N)}
    return Column(f"{head or heading(quantity, section.workload)}{at}", texts, best)


def _longest(section: Section) -> Column:
    found = {label: longest(series) for label, series in section.series.items()}
    return Column("longest N", {label: length(last.cell.problem.N) if last else "none" for label, last in found.items()})


def _stopped(section: Section) -> Column:
    """Return `OOM at 16k` for each method, or the status alone where every length has it."""
    texts = {}
    for label, series in section.series.items():
        texts[label] = "; ".join(
            short(status) if len(lengths) == len(series) else f"{short(status)} at {length(lengths[0])}"
            for status, lengths in stops(series).items()
        )
    return Column("stopped by", texts)


def speedup_tables(findings: Findings, section: Section) -> list[Table]:
    """Return methods by lengths, over each baseline that has a number at some length."""
    labels = [base.cell.label for N in section.lengths for base in baselines(section, N)]
    time, found = findings.quantities[TIME], []
    for over in dict.fromkeys(labels):
        name = findings.names[over]
        columns = [_over(section, section.at(over, N), N, f"N={length(N)}") for N in section.lengths]
        about = f"Time of {name} over the time of the method, replicates paired: above 1 the method is faster."
        found.append(_table(findings, section, f"Speed-up over {name}: {section.title}", columns, about, time))
    return found


def _speedups(findings: Findings, section: Section, N: int | None, bases: Sequence[CellSummary], at: str) -> list[Column]:
    """Return a column for each baseline; an empty one says that there is none."""
    if N is None or not bases:
        none = "baseline" if findings.run.suite.report.baselines else "exact softmax"
        return [Column(f"speed-up (no {none} ran)", dict.fromkeys(section.series, ""))]
    return [_over(section, base, N, f"speed-up over {_named(findings, base)}{at}") for base in bases]


def _named(findings: Findings, base: CellSummary) -> str:
    """Name a baseline; of one that attends the whole prefix again for each token say so."""
    return f"{one_line(findings.names[base.cell.label])}{' (uncached)' if without_cache(base) else ''}"


def _over(section: Section, base: CellSummary | None, N: int, head: str) -> Column:
    """Return the speed-up of each method over a baseline at one length."""
    texts = {}
    for label in section.series:
        cell = section.at(label, N)
        if cell is None:
            texts[label] = ""
        elif not cell.ok:
            texts[label] = short(cell.status)
        elif base is cell:
            texts[label] = "1 (baseline)"
        else:
            texts[label] = factor(speedup(base, cell)) or "n/a" if base is not None and base.ok else "n/a"
    return Column(head, texts)
