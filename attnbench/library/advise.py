"""The methods that qualify for a length, a memory and a quality, by what was recorded and nothing else."""

import inspect
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from attnbench import registry
from attnbench.analyze.best import Candidate, Contest, front
from attnbench.analyze.cells import CellSummary
from attnbench.analyze.points import UNFINISHED
from attnbench.analyze.quantities import MEMORY, STATE_BYTES, TIME, Quantity
from attnbench.analyze.sections import Section
from attnbench.analyze.statistics import ENOUGH, Estimate
from attnbench.library.answers import Answer
from attnbench.library.reading import runs_below
from attnbench.library.runs import Run, RunLike
from attnbench.measure import environment
from attnbench.report.conditions import replication, shapes, short_machine
from attnbench.report.findings import Findings
from attnbench.report.text.names import one_line
from attnbench.report.text.numbers import heading, shown, written
from attnbench.report.text.statuses import short
from attnbench.report.text.table import Table, plain, wrapped
from attnbench.schema import outcome
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errors import ArgumentError, UsageError
from attnbench.schema.outcome import Status
from attnbench.schema.run import RunInfo
from attnbench.schema.training import LANGUAGE, Task
from attnbench.schema.units import bytes_, counted, length
from attnbench.session import machine
from attnbench.session.asked import amount, one_of, parameters, several, word
from attnbench.session.asked import length as asked_length
from attnbench.session.reporter import Reporter

_COSTS = (TIME, MEMORY, STATE_BYTES)
_ABSENT = {Status.UNSUPPORTED.value, Status.MISSING.value}
# what is heard has an error rate, and no accuracy
_TASKS = tuple(task.value for task in Task if task not in {*LANGUAGE, Task.SPEECH})
_QUALITIES = (
    *_TASKS,
    *(*outcome.FIDELITY_SCORES, "missed_mass"),
    # the price of determinism is a time
    *(score for score in outcome.NUMERICS_SCORES if score != outcome.DETERMINISTIC_COST),
    *(outcome.LOSS, outcome.ACCURACY, "wrong", outcome.ERROR_RATE, outcome.BITS, *outcome.QUALITY_SCORES),
)
"""What a method may have to be good at; what it costs is none of them."""


@dataclass(frozen=True)
class Advice(Answer):
    """Methods by how they qualify, the best first: names with their parameters, as tables show them."""

    qualified: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    """Those that were not run yet, or of which something that was asked for was not recorded."""
    ruled_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Place:
    """A section of a run that has cells of the length."""

    findings: Findings
    section: Section
    path: Path

    @property
    def run(self) -> RunInfo:
        """The run as this section was measured, which may be on another device than the rest of it."""
        return self.findings.run.on(next(cell.environment for cell in self.section.summaries if cell.ok))

    @cached_property
    def is_here(self) -> bool:
        """Whether it was measured on a machine like this one: its processor, as many cores, and the GPU where it was on one.

        A run also knows the threads of torch, which nobody can ask here without importing it.
        """
        here, there = environment.gather(), self.run.environment
        alike = all(here[name] == there.get(name) for name in ("processor", "cores"))
        gpu = there.get("gpu")
        return alike and (gpu is None or gpu in {finding.name for finding in machine.gpu()})

    def rank(self, N: int) -> tuple[bool, bool, int, str]:
        """Rank an answer by what makes it better: this machine; intervals; many methods; that it is new."""
        cells, run = self.section.ok_at(N), self.findings.run
        return self.is_here, run.suite.replicates >= ENOUGH, len(cells), run.started


@dataclass(frozen=True)
class _Wish:
    """A quality that a method must have: at least, or at most, so much."""

    name: str
    bound: float
    at_least: bool

    def met(self, found: Estimate) -> bool:
        """Say whether the middle of what was recorded is good enough."""
        return found.value >= self.bound if self.at_least else found.value <= self.bound


@dataclass(frozen=True)
class _Known:
    """A quality that was recorded of a method with its parameters."""

    cell: Cell
    value: Estimate
    text: str
    path: Path
    """The folder of the run."""

    def holds_for(self, cell: Cell) -> bool:
        """Say whether it is a quality of this cell: of its method, with the same parameters, named or not.

        With another mask, dtype, width or precision of products an attention is another computation, and on another kind of
        device it is rounded otherwise. A trained model has a width of its own.
        """
        ours, theirs = ((c.problem.causal, c.problem.D, c.ceiling) for c in (self.cell, cell))
        alike = self.cell.training is not None or ours == theirs
        alike &= self.cell.workload is not Workload.NUMERICS or self.cell.device_kind == cell.device_kind
        return alike and self.cell.method == cell.method and _parameters(self.cell) == _parameters(cell)

    def nearness(self, cell: Cell, path: Path) -> tuple[bool, bool, bool]:
        """Rank it by what is the same as of a cell in a run: first its inputs, then its length, then the run."""
        return _given(self.cell) == _given(cell), self.cell.problem.N == cell.problem.N, self.path == path


_Qualities = Mapping[_Wish, _Known | None]
"""What was recorded of a method, of each quality that is asked for."""


def advise(  # noqa: PLR0913 - one parameter an option
    *runs: RunLike,
    N: int | str,
    workload: str = Workload.FORWARD.value,
    causal: bool = True,
    memory: str | None = None,
    min: str | Sequence[str] = (),
    max: str | Sequence[str] = (),
    by: str = TIME,
    reporter: Reporter | None = None,
) -> Advice:
    """Say which methods qualify at a length, by stored runs or folders of them; without any, by those below `results`.

    `memory` is what one sample may need, as 2GiB; `min` and `max` are qualities, as `recall=0.9` (accuracy on that task) or
    `output_error=0.1`; `by` the cost that they are ranked by: time, memory or state. Answers come from one run, best of this
    machine, at the very length; what was not measured is unknown. Raises UsageError.
    """
    wanted, asked = asked_length(N, "N"), word(Workload, workload, "workload")
    limit = amount(memory, "memory") if memory is not None else None
    one_of(_COSTS, by, "by")
    wishes = [*_wishes(min, "min", at_least=True), *_wishes(max, "max", at_least=False)]
    told = reporter or Reporter()
    sources = [each for run in runs or ("results",) for each in runs_below(run, told, lambda _: True)]
    places = [
        _Place(run.findings, section, run.path)
        for run in sources
        for section in run.findings.sections
        if section.workload is asked and section.causal is causal
    ]
    there = [place for place in places if place.section.ok_at(wanted)]
    mask = "causal" if causal else "non-causal"
    command = f"attnbench run --methods {{}} --N {wanted} --workloads {asked.value} --{mask}"
    # a model takes a suite to describe it
    measure = "" if asked.has_model else f"; measure in a run of its own, with 8 heads of 64 in float32: {command}"
    if not there:
        lengths = sorted({N for place in places for N in place.section.lengths if place.section.ok_at(N)})
        known = f"there is: N = {', '.join(f'{N:,}' for N in lengths)}" if lengths else "there is nothing of that kind"
        example = measure.format(shlex.quote("softmax.sdpa,linear.*,sparse.strided,gated.mamba2"))
        raise UsageError(f"nothing was measured at N = {wanted:,}, {asked.value}, {mask}; {known}{example}")
    place = sorted(there, key=lambda place: place.rank(wanted))[-1]
    return _answer(place, wanted, limit, by, {wish: _recorded(wish, sources) for wish in wishes}, len(there) - 1, measure)


def _wishes(given: str | Sequence[str], argument: str, *, at_least: bool) -> Iterator[_Wish]:
    for name, bound in parameters(several(given), argument).items():
        one_of(_QUALITIES, name, argument)
        if isinstance(bound, bool | str):
            raise ArgumentError(argument, f"{name}={bound}", "a quality is a number, as recall=0.9")
        yield _Wish(name, bound, at_least)


def _recorded(wish: _Wish, sources: Sequence[Run]) -> list[_Known]:
    """Return all cells that have the quality, the newest run first, and of each run the longest length."""
    found, is_task = [], wish.name in _TASKS
    for run in sorted(sources, key=lambda run: run.info.started, reverse=True):
        # a task is asked for its accuracy
        quantity = run.findings.quantities[outcome.ACCURACY if is_task else wish.name]
        for cell in sorted(run.findings.summaries, key=lambda cell: -cell.cell.problem.N):
            of = _given(cell.cell)
            if (of == wish.name or not is_task) and (value := quantity.estimate(cell)) is not None:
                # a task that is asked for by its name stands above the column already
                parts = [f"{shown(quantity, value)} at N = {length(cell.cell.problem.N)}", *([] if of == wish.name else [of])]
                found.append(_Known(cell.cell, value, ", ".join(parts), run.path))
    return found


def _given(cell: Cell) -> str:
    """Say what a method was given: a task, a whole model or inputs of one kind."""
    if cell.training:
        return cell.training.task.value
    return f"in {cell.model.config}" if cell.model else f"{cell.inputs.value} inputs"


def _parameters(cell: Cell) -> dict[str, object]:
    """Return the parameters of a cell, with the method's own values of those it does not name, if it can be imported here."""
    try:
        accepted = inspect.signature(registry.load(cell.method)).parameters.values()
    except Exception:  # noqa: BLE001 - a plugin's module can raise anything
        return dict(cell.params)
    return {each.name: each.default for each in accepted if each.default is not each.empty} | dict(cell.params)


def _standing(findings: Findings, cell: CellSummary, known: _Qualities, by: str, limit: float | None) -> tuple[int, str]:
    """Say whether a method qualifies (0), nobody knows (1) or it does not (2), and why."""
    needed = findings.quantities[MEMORY].estimate(cell)
    if cell.status in UNFINISHED:
        return 1, f"unknown: {short(cell.status)}"
    if not cell.ok:
        return 2, short(cell.status)
    if limit is not None and needed is not None and needed.value > limit:
        return 2, f"needs more than {bytes_(limit)}"
    if failed := [wish for wish, found in known.items() if found and not wish.met(found.value)]:
        return 2, f"{failed[0].name} too {'low' if failed[0].at_least else 'high'}"
    if lacking := [wish.name for wish, found in known.items() if not found]:
        return 1, f"unknown: {', '.join(lacking)} not recorded"
    for name in (by, *([MEMORY] if limit is not None else [])):
        if not findings.quantities[name].values(cell):
            return 1, f"unknown: its {name} was not read"
    return 0, "qualifies"


def _answer(
    place: _Place, N: int, limit: float | None, by: str, recorded: Mapping[_Wish, Sequence[_Known]], others: int, measure: str
) -> Advice:
    findings, section = place.findings, place.section
    planned = {label: cell for label in section.series if (cell := section.at(label, N))}
    cells = {label: cell for label, cell in planned.items() if cell.status not in _ABSENT}

    def nearest(found: Sequence[_Known], cell: Cell) -> _Known | None:
        """Return what is nearest to a cell; where several are as near, the newest."""
        own = [each for each in found if each.holds_for(cell)]
        return max(own, key=lambda each: each.nearness(cell, place.path), default=None)

    known: dict[str, _Qualities] = {
        label: {wish: nearest(found, cell.cell) for wish, found in recorded.items()} for label, cell in cells.items()
    }
    cost = findings.quantities[by]
    kept = [quantity for name in _COSTS if findings.shows(section, quantity := findings.quantities[name])]
    standings = {label: _standing(findings, cell, known[label], by, limit) for label, cell in cells.items()}
    values = {label: found.value if (found := cost.estimate(cell)) else math.inf for label, cell in cells.items()}
    order = sorted(cells, key=lambda label: (standings[label][0], values[label]))
    groups = [tuple(label for label in order if standings[label][0] == rank) for rank in range(3)]
    best = Contest(section, cost, groups[0]).best(N)
    # no other beats these in the cost and in the quality that was asked for first
    first = next(iter(recorded), None)
    candidates = [
        Candidate(label, value, quality.value.rest() if first.at_least else quality.value)
        for label in groups[0]
        if first and (value := cost.estimate(cells[label])) and (quality := known[label][first])
    ]
    on_front = {candidate.label for candidate in front(candidates)} if len(candidates) > 1 else set()
    rows = [
        (
            one_line(findings.names[label]),
            *(shown(quantity, quantity.estimate(cells[label])) for quantity in kept),
            *(found.text if found else "" for found in known[label].values()),
            f"{standings[label][1]}{', on the front' if label in on_front else ''}",
        )
        for label in order
    ]
    column = 1 + kept.index(cost) if cost in kept else 0
    alike = best.labels if best else ()
    bold = {(row, column) for row, label in enumerate(order) if label in alike and column}
    wishes = [wish.name for wish in recorded]
    headers = ("method", *(heading(each, section.workload) for each in kept), *wishes, "verdict")
    # what an unfinished run still owes comes first; what was refused there cannot be measured there
    named, refused = {cell.cell.method for cell in planned.values()}, len(planned) - len(cells)
    unmeasured = [label for label, cell in cells.items() if cell.status in UNFINISHED]
    unmeasured += [name for name in registry.catalogue() if name not in named]
    device = short_machine(replace(findings, run=place.run, summaries=section.summaries))
    notes = [
        f"From {place.path}, {findings.run.started[:10]}, on {device}: {shapes(section.summaries)}.",
        "" if place.is_here else "That is another machine than this one; nothing of the kind was recorded here.",
        f"Ranked by {cost.title}; bold where it cannot be told from the least. {replication(section.summaries, cost)}",
        "Qualities were recorded with this mask, dtype, precision and D, at the length and on the inputs that stand beside "
        "them: these inputs, this length and this run where there are any; those of trained tasks in models of their own."
        if wishes
        else "",
        f"On the front: no other that qualifies is better both in {cost.title} and in {wishes[0]}." if on_front else "",
        f"Left aside: {counted(others, 'section')} of this length in other runs or conditions." if others else "",
        f"Not possible there: {counted(refused, 'method')}; table.csv of the run says why." if refused else "",
        f"Unknown: {counted(len(unmeasured), 'method')} not measured there"
        + measure.format(shlex.quote(",".join(unmeasured[:3])))
        if unmeasured
        else "",
    ]
    table = Table(f"{section.title}, N = {N:,}", headers, tuple(rows), frozenset(bold), tuple(filter(None, notes)))
    sentence = _sentence(groups[0], [label for label in groups[1] if cells[label].ok], cost, alike, section, N)
    text = f"{wrapped(sentence)}\n\n{plain([table])}"
    return Advice(f"Advice for N = {N:,}", [table], lambda: text, qualified=groups[0], unknown=groups[1], ruled_out=groups[2])


def _sentence(
    qualified: Sequence[str], unknown: Sequence[str], cost: Quantity, best: Sequence[str], section: Section, N: int
) -> str:
    at = f"at N = {N:,}, {section.workload.words}, {section.mask}"
    if not qualified:
        knows = f"is known to qualify; of {len(unknown)} not all was recorded" if unknown else "qualifies"
        return f"Of {counted(len(section.ok_at(N)), 'method')} measured {at}, none {knows}."
    first, number = qualified[0], cost.estimate(section.at(qualified[0], N))
    size = written(number.value, cost.unit) if number else ""
    if len(qualified) == 1:
        qualifies = "is known to qualify" if unknown else "qualifies"
        more = f"; of {counted(len(unknown), 'other')} not all was recorded" if unknown else ""
        return f"Only {first} {qualifies} {at}; its {cost.title} is {size}{more}."
    alike = [label for label in qualified[1:] if label in best]
    beside = f"; {', '.join(alike)} cannot be told from it" if alike else ""
    return f"Of {len(qualified)} methods that qualify {at}, {first} has the least {cost.title}, {size}{beside}."
