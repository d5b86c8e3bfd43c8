"""Crossovers as tables, one a section, and as CSV, one row a crossing."""

import csv
import io
from collections.abc import Sequence

from attnbench.analyze.crossover import Crossing, Lead
from attnbench.analyze.statistics import ENOUGH
from attnbench.analyze.versus import Gap, Versus
from attnbench.report.conditions import FIRST_LOOK, machine
from attnbench.report.findings import Findings
from attnbench.report.questions.crossover.words import beats, doubt, listed, remarks, sentence, where
from attnbench.report.text.names import harmless
from attnbench.report.text.statuses import reasons
from attnbench.report.text.table import Table
from attnbench.schema.noun import Scalar

_INTERPOLATED = "Between measured lengths the ratio of the two methods is interpolated, in logarithms."
_INTERVAL = "[a–b]: 95 % interval over replicates, by t tests on the interpolated log-ratio (Fieller 1954)."
Row = dict[str, Scalar | None]


def lines(findings: Findings, compared: Sequence[Versus]) -> list[str]:
    """What is found, a line each; remarks are indented below."""
    found = []
    for versus in compared:
        found += [sentence(versus, findings.names), *(f"  {remark}" for remark in remarks(versus, findings.names))]
    return found


def crossover_tables(findings: Findings, compared: Sequence[Versus]) -> list[Table]:
    """One a section, in the order of the run."""
    by_section = [[v for v in compared if v.section is section] for section in findings.sections]
    return [_table(findings, members) for members in by_section if members]


def _table(findings: Findings, members: Sequence[Versus]) -> Table:
    metric, section = members[0].metric, members[0].section
    about = f"{metric.name} ({metric.about})" if metric.about else metric.name
    replicated = [_INTERVAL] if metric.replicated and any(v.crossover.replicates >= ENOUGH for v in members) else []
    first_look = [FIRST_LOOK] if any(doubt(versus) for versus in members) else []
    told = [f"{remark[0].upper()}{remark[1:]}." for versus in members for remark in remarks(versus, findings.names)]
    why = reasons([cell for versus in members for cell in versus.cells])
    return Table(
        title=f"Crossover by {about}: {section.title}",
        headers=("method", "against", f"the method {beats(members[0]).removesuffix(' than')}", "compared at", "replicates"),
        rows=tuple(_row(findings, versus) for versus in members),
        notes=tuple(dict.fromkeys([_INTERPOLATED, *replicated, *first_look, *told, *why, machine(findings)])),
    )


def _row(findings: Findings, versus: Versus) -> tuple[str, ...]:
    found = versus.crossover
    if not found.lengths:
        leads = "n/a"
    else:
        leads = where(versus) or ("cannot be told" if not found.told else f"none up to N = {found.lengths[-1]:,}")
    names = findings.names
    return (names[versus.of], names[versus.over], leads, _span(found.lengths), str(found.replicates))


def _span(lengths: Sequence[int]) -> str:
    return f"{lengths[0]:,} to {lengths[-1]:,} ({len(lengths)} lengths)" if len(lengths) > 2 else listed(lengths)


def crossover_csv(compared: Sequence[Versus]) -> str:
    """Lengths as numbers, statuses and reasons of every cell without a figure; a pair without a crossing is a row too."""
    rows = [_record(versus, crossing) for versus in compared for crossing in versus.crossover.crossings or (None,)]
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]) if rows else ["of"], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: harmless(value) for name, value in row.items()} for row in rows)
    return out.getvalue()


def _record(versus: Versus, crossing: Crossing | None) -> Row:
    section, found = versus.section, versus.crossover
    return {
        "workload": section.workload.value,
        "causal": section.causal,
        "conditions": section.conditions,
        "metric": versus.metric.name,
        "counter": versus.metric.about or None,
        "of": versus.of,
        "over": versus.over,
        "found": _found(versus, crossing),
        **_position(crossing),
        "replicates": found.replicates,
        "shortest": found.lengths[0] if found.lengths else None,
        "longest": found.lengths[-1] if found.lengths else None,
        "of_leads_at": _at(versus, Lead.OF),
        "over_leads_at": _at(versus, Lead.OVER),
        "ties_at": _at(versus, Lead.TIE),
        "of_without_figure": _failures(versus, [(gap, gap.of) for gap in versus.gaps], versus.of),
        "over_without_figure": _failures(versus, [(gap, gap.over) for gap in versus.gaps], versus.over),
    }


def _found(versus: Versus, crossing: Crossing | None) -> str:
    if crossing is not None:
        return "of_leads_from_here" if crossing.gained else "over_leads_from_here"
    if not versus.crossover.lengths:
        return "nothing_to_compare"
    if not versus.crossover.told:
        return "cannot_be_told"
    return "of_leads_throughout" if versus.crossover.stretches else "over_leads_throughout"


def _position(crossing: Crossing | None) -> Row:
    interval = crossing.interval if crossing else None
    return {
        "N": crossing.length if crossing else None,
        "N_low": interval.low if interval else None,
        "N_high": interval.high if interval else None,
        "bracket_low": crossing.bracket[0] if crossing else None,
        "bracket_high": crossing.bracket[1] if crossing else None,
    }


def _at(versus: Versus, lead: Lead) -> str | None:
    return " ".join(str(N) for N, found in versus.crossover.leads.items() if found is lead) or None


def _failures(versus: Versus, gaps: Sequence[tuple[Gap, str]], label: str) -> str | None:
    """`16384 oom_host: memory limit reached; 32768 …`."""
    cells = [(gap.N, status, versus.section.at(label, gap.N)) for gap, status in gaps if status]
    words = [f"{N} {status}{f': {cell.reason}' if cell and cell.reason else ''}" for N, status, cell in cells]
    return "; ".join(words) or None
