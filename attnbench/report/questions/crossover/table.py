"""Crossovers in words, a line each; as tables, one a section; and as CSV, one row a crossing."""

import math
from collections.abc import Collection, Mapping, Sequence

from attnbench.analyze.crossover import NO_FIGURE, NO_RATIO, NOT_PLANNED, Crossing, Lead, Versus
from attnbench.analyze.sections import grouped
from attnbench.report.conditions import first_look, machine
from attnbench.report.findings import Findings
from attnbench.report.text.statuses import reasons, short
from attnbench.report.text.table import Table, rows_csv
from attnbench.schema.noun import Scalar

Names = Mapping[str, str]
"""By label, how a method is called."""


def lines(findings: Findings, compared: Sequence[Versus]) -> list[str]:
    """Return what is found, a line each; remarks are indented below."""
    found = []
    for versus in compared:
        found += [sentence(versus, findings.names), *(f"  {remark}" for remark in remarks(versus, findings.names))]
    return found


def sentence(versus: Versus, names: Names) -> str:
    """`from N = 3,120 [2,910–3,380] on, linear.chunked is faster than softmax.sdpa, forward, causal, float32`."""
    of, over, found = names[versus.of], names[versus.over], versus.crossover
    if not found.lengths:
        lacking = _figure([status for statuses in versus.gaps.values() for status in statuses])
        return f"there is no length at which both {of} and {over} have {lacking}, {versus.section.title}"
    if stretches := where(versus):
        text = f"{stretches}, {of} {versus.quantity.verb} {over}, {versus.section.title}"
    elif not found.told:
        text = f"{of} and {over} cannot be told apart at N = {among(found.lengths, found.lengths)}, {versus.section.title}"
    else:
        kind = "compared" if found.told[-1] == found.lengths[-1] else "at which it can be told"
        about = f"none up to N = {found.told[-1]:,}, the longest length {kind}"
        text = f"{about}: {over} stays ahead of {of}, {versus.section.title}"
    return text + doubt(versus)


def doubt(versus: Versus) -> str:
    """Say that it is a first look, where it is one."""
    count = versus.crossover.replicates
    if not versus.quantity.is_replicated or not 0 < count < versus.quantity.enough:
        return ""
    return f" (first look, {count} replicate{'s' if count > 1 else ''}: cannot tell)"


def where(versus: Versus) -> str:
    """Name the lengths over which `of` leads; empty where there are none."""
    found, texts = versus.crossover, []
    for begun, ended in found.stretches:
        shortest, longest, first, last = found.lengths[0], found.lengths[-1], found.told[0], found.told[-1]
        if begun is not None:
            start = f"from {_edge(versus, begun)}"
        elif first == shortest:
            start = f"from the shortest length compared ({first:,})"
        else:
            start = f"at the latest from N = {first:,}"
        if ended is not None:
            texts.append(f"{start} to {_edge(versus, ended)}")
        else:
            texts.append(f"{start} on" if last == longest else f"{start} to N = {last:,} at least")
    return " and ".join(texts)


def _figure(statuses: Collection[str]) -> str:
    """Name what cells with these statuses lack."""
    return "a figure above 0" if NO_RATIO in statuses else "a figure"


def _edge(versus: Versus, crossing: Crossing) -> str:
    low, high = crossing.bracket
    if crossing.interval is not None:
        return f"N = {rounded(crossing.length)} [{rounded(crossing.interval.low)}–{rounded(crossing.interval.high)}]"
    if versus.quantity.is_replicated:
        return f"somewhere between N = {low:,} and {high:,}"
    return f"about N = {rounded(crossing.length)} (between {low:,} and {high:,})"


def rounded(N: float) -> str:
    """Write three digits of a length that was not measured: 3,120."""
    digits = min(0, 2 - math.floor(math.log10(N)))
    return f"{round(N, digits):,.0f}"


def remarks(versus: Versus, names: Names) -> list[str]:
    """Say what else there is: lengths at which it cannot be told, and those at which not both have figures."""
    of, over, known, lines = names[versus.of], names[versus.over], versus.section.lengths, []
    if (ties := versus.crossover.ties) and versus.crossover.told:
        lines.append(f"at N = {among(ties, known)} {of} and {over} cannot be told apart")
    for statuses, lengths in grouped((statuses, N) for N, statuses in versus.gaps.items()).items():
        (of_status, over_status), lacking = statuses, _figure(statuses)
        if of_status and over_status:
            what = f"neither has {lacking} ({of}: {short(of_status)}; {over}: {short(over_status)})"
        else:
            one, other, status = (over, of, of_status) if of_status else (of, over, over_status)
            has_none = status in {NOT_PLANNED, NO_FIGURE, NO_RATIO}
            does, does_not = (f"has {lacking}", "has none") if has_none else ("runs", "does not")
            what = f"{one} {does} and {other} {does_not} ({short(status)})"
        lines.append(f"at N = {among(lengths, known)} {what}")
    return lines


def listed(lengths: Sequence[int]) -> str:
    """`512, 1,024 and 2,048`."""
    words = [f"{N:,}" for N in lengths]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def among(lengths: Sequence[int], known: Sequence[int]) -> str:
    """`512 to 65,536` where more than three lengths leave none between them out, else a list."""
    first, last = known.index(lengths[0]), known.index(lengths[-1])
    whole = len(lengths) > 3 and list(known[first : last + 1]) == list(lengths)
    return f"{lengths[0]:,} to {lengths[-1]:,}" if whole else listed(lengths)


def crossover_tables(findings: Findings, compared: Sequence[Versus]) -> list[Table]:
    """Return one table a section, in the order of the run."""
    tables, names = [], findings.names
    for section in findings.sections:
        members = [versus for versus in compared if versus.section is section]
        if not members:
            continue
        quantity, rows = members[0].quantity, []
        notes = ["Between measured lengths the ratio of the two methods is interpolated, in logarithms."]
        if quantity.is_replicated and any(versus.crossover.replicates >= quantity.enough for versus in members):
            notes.append("[a–b]: 95 % interval over replicates, by t tests on the interpolated log-ratio (Fieller 1954).")
        if any(doubt(versus) for versus in members):
            notes.append(first_look(quantity))
        for versus in members:
            found, at = versus.crossover, versus.crossover.lengths
            nowhere = f"none up to N = {found.told[-1]:,}" if found.told else "cannot be told"
            leads = where(versus) or nowhere if at else "n/a"
            span = f"{at[0]:,} to {at[-1]:,} ({len(at)} lengths)" if len(at) > 2 else listed(at)
            rows.append((names[versus.of], names[versus.over], leads, span, str(found.replicates)))
            notes += [f"{remark[0].upper()}{remark[1:]}." for remark in remarks(versus, names)]
        notes += [*reasons([cell for versus in members for cell in versus.cells], names), machine(findings.run)]
        tables.append(
            Table(
                title=f"Crossover by {quantity.name}{f' ({quantity.about})' if quantity.about else ''}: {section.title}",
                headers=("method", "against", f"the method {quantity.verb.removesuffix(' than')}", "compared at", "replicates"),
                rows=tuple(rows),
                notes=tuple(dict.fromkeys(notes)),
            )
        )
    return tables


def crossover_csv(compared: Sequence[Versus]) -> str:
    """Return lengths as numbers, and why cells have no figure; a pair that never crosses is a row too."""
    pairs = [(versus, crossing) for versus in compared for crossing in versus.crossover.crossings or (None,)]
    return rows_csv([_record(versus, crossing) for versus, crossing in pairs], ("of",))


def _record(versus: Versus, crossing: Crossing | None) -> dict[str, Scalar | None]:
    section, found, interval = versus.section, versus.crossover, crossing.interval if crossing else None
    if crossing is not None:
        says = "of_leads_from_here" if crossing.gained else "over_leads_from_here"
    elif not found.lengths:
        says = "nothing_to_compare"
    elif not found.told:
        says = "cannot_be_told"
    else:
        says = "of_leads_throughout" if found.stretches else "over_leads_throughout"
    leads = {"of_leads_at": Lead.OF, "over_leads_at": Lead.OVER, "ties_at": Lead.TIE}
    return {
        "workload": section.workload.value,
        "causal": section.causal,
        "conditions": section.conditions,
        "metric": versus.quantity.name,
        "counter": versus.quantity.about or None,
        "of": versus.of,
        "over": versus.over,
        "found": says,
        "N": crossing.length if crossing else None,
        "N_low": interval.low if interval else None,
        "N_high": interval.high if interval else None,
        "bracket_low": crossing.bracket[0] if crossing else None,
        "bracket_high": crossing.bracket[1] if crossing else None,
        "replicates": found.replicates,
        "shortest": found.lengths[0] if found.lengths else None,
        "longest": found.lengths[-1] if found.lengths else None,
        **{name: " ".join(str(N) for N, lead in found.leads.items() if lead is who) or None for name, who in leads.items()},
        **{f"{side}_without_figure": _failures(versus, place) for place, side in enumerate(("of", "over"))},
    }


def _failures(versus: Versus, place: int) -> str | None:
    """`16384 oom_host: memory limit reached; 32768 …`, of the method `of` (0) or `over` (1)."""
    words = []
    for N, statuses in versus.gaps.items():
        if status := statuses[place]:
            cell = versus.section.at((versus.of, versus.over)[place], N)
            words.append(f"{N} {status}{f': {cell.reason}' if cell and cell.reason else ''}")
    return "; ".join(words) or None
