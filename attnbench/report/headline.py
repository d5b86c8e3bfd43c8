"""The sentence of result: who is best, from which length on, and how sure that is; or that it cannot be told."""

from collections import Counter
from collections.abc import Iterable, Sequence

from attnbench.analyze.best import Best
from attnbench.analyze.cells import CellSummary
from attnbench.analyze.headline import NEAR, Standing, Statement
from attnbench.analyze.quantities import SEEDS
from attnbench.analyze.sections import Section
from attnbench.report.conditions import short_machine
from attnbench.report.findings import Findings
from attnbench.report.questions.crossover.table import rounded
from attnbench.report.questions.learning.words import by_length, where
from attnbench.report.text.names import one_line, shorten
from attnbench.report.text.numbers import figure_of
from attnbench.report.text.statuses import short
from attnbench.schema.units import counted

_STANDINGS = {
    Standing.BELOW: "{} end{s} below {}",
    Standing.REACHES: "{} reach{es} {}",
    Standing.ABOVE: "{} stay{s} above {}",
    Standing.UNTOLD: "whether {} reach{es} {} cannot be told",
}
_FEW = 3
"""Methods that are named; of more the others are counted."""
_CONDITIONS = 60
"""Letters of the conditions, at most."""


def headline(findings: Findings) -> str:
    """Return the most telling sentence of a run: plain text on one line, never empty."""
    return headlines(findings)[0]


def headlines(findings: Findings) -> list[str]:
    """Return one sentence a section, the most telling first; of a run without any number one in all."""
    if findings.sections and any(cell.ok for cell in findings.summaries):
        return [sentence(findings, section, said) for section, said in findings.statements]
    count = len(findings.summaries)
    if not count:
        return ["Nothing was measured: the run has no cells."]
    return [f"Nothing can be told: no cell of {count:,} has a number ({_statuses(findings.summaries)})."]


def sentence(findings: Findings, section: Section, said: Statement) -> str:
    """Say what a section amounts to, under which conditions, on which machine, and what has no number."""
    failed, names = _statuses(cell for cell in section.summaries if not cell.ok), findings.names
    without = f"; no number: {failed}" if failed else ""
    about = f"({section.workload.words}, {section.mask}, {shorten(section.conditions, _CONDITIONS)})"
    few = f"first look, {counted(said.replicates, 'replicate')}: " if said.replicates < said.quantity.enough else ""
    if said.best is None:
        why = "no two methods have a number at the same length" if said.labels else "no method has a number"
        if len(said.labels) == 1:
            others = [cell for cell in section.summaries if cell.cell.label != said.labels[0]]
            # of an error those of exact methods are left aside
            alone = "is not exact" if any(map(said.quantity.values, others)) else "has a number"
            why = f"{names[said.labels[0]]} {f'alone {alone}' if others else 'is the only method'}"
        text = f"nothing to compare: {why} {about}{without}."
    elif said.standings:
        text = f"{_learnt(findings, section, said, said.best.N)}{without}."
    elif section.workload.is_timed:
        # of unlike devices, the conditions name the section's own
        where = "" if findings.run.elsewhere else f", on {short_machine(findings)}"
        text = f"{few}{_led(findings, said, said.best)} {about}{where}{without}. Speed only."
    else:
        figure = figure_of(said.quantity, section.at(said.best.labels[0], said.best.N))
        text = f"{few}{_led(findings, said, said.best)} {about}: {said.quantity.title} {figure}{without}."
    text = one_line(text)
    return f"{text[0].upper()}{text[1:]}"


def _led(findings: Findings, said: Statement, best: Best) -> str:
    """Say where the best leads the baseline, and how it stands against all others at the longest common length."""
    reach, verb, names = said.reach, said.quantity.verb, findings.names
    first, at = names[best.labels[0]], f"at N = {best.N:,}"
    ties = _listed([names[label] for label in best.labels[1:]])
    if reach is None and not best.alone:
        return f"{at}, {first} cannot be told from {ties} by {said.quantity.title}"
    others = f"all {best.count - 1} others" if best.count > 3 else "both others"
    # where the only two are tied nobody is behind, and the clause on ties is all that is said
    everyone = names[best.behind[0]] if len(best.behind) == 1 else others
    if reach is None or (best.alone and reach.led == (best.N,)):
        return f"{at}, {first} {verb} {everyone}"
    # the measured lengths that are led, and the crossing before them
    start, end = reach.led[0], reach.led[-1]
    where_led = f"at N = {end:,}" if start == end else f"from N = {start:,} to {end:,}"
    if reach.start is not None and (interval := reach.start.interval) is not None:
        low, N, high = map(rounded, (interval.low, reach.start.length, interval.high))
        where_led = f"from N = {N} [{low}–{high}] to {end:,}"
    clause = f"{where_led}, {first} {verb} {names[reach.over]}"
    if not best.alone:
        return f"{clause}; {at} it cannot be told from {ties}"
    return clause if best.count == 2 and best.N in reach.led else f"{clause}, and than {everyone} {at}"


def _learnt(findings: Findings, section: Section, said: Statement, N: int) -> str:
    """Say who reaches the loss of the baseline, who does not, and of whom that cannot be told."""
    loss, clauses = f"{findings.names[said.base]}'s loss", []
    for standing, words in _STANDINGS.items():
        labels = [label for label, found in said.standings.items() if found is standing]
        if labels:
            s, es = ("", "") if len(labels) > 1 else ("s", "es")
            clauses.append(words.format(_listed([findings.names[label] for label in labels]), loss, s=s, es=es))
            loss = "it"
    cell = section.at(said.base, N)
    updates = f"{cell.cell.training.updates:,} updates, " if cell and cell.cell.training else ""
    few = f", and {SEEDS} are the fewest that tell" if said.replicates < SEEDS else ""
    (about,) = (shorten(where(part), _CONDITIONS) for part in by_length(section) if part.lengths == (N,))
    return f"{about}: {'; '.join(clauses)} (to {NEAR} nats, {updates}{counted(said.replicates, 'seed')}{few})"


def _statuses(cells: Iterable[CellSummary]) -> str:
    """Write `OOM 12, wrong 3`: the most frequent first."""
    counts = Counter(short(cell.status) for cell in cells)
    return ", ".join(f"{status} {count:,}" for status, count in counts.most_common())


def _listed(names: Sequence[str]) -> str:
    """Write `a, b and c`, or of more `a, b, c and 9 others`."""
    more = len(names) - _FEW
    words = [*names[:_FEW], *([f"{more} other{'s' if more > 1 else ''}"] if more > 0 else [])]
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
