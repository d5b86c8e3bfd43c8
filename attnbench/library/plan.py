"""The cells of a suite with the least time that each takes; and the methods that are installed. Nothing is measured."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING

from tabulate import tabulate

from attnbench import registry
from attnbench.analyze.sections import grouped, varied
from attnbench.measure import environment
from attnbench.places.elsewhere import DATA_SHEETS, Elsewhere
from attnbench.places.station import LocalStation
from attnbench.report.questions.trend.names import conditions
from attnbench.report.text.html import table_html
from attnbench.report.text.table import Table
from attnbench.schema import units
from attnbench.schema.cell import Batch, Cell
from attnbench.schema.errand import Description, Inquiry, Surroundings
from attnbench.schema.errors import ArgumentError, UsageError
from attnbench.schema.outcome import Failed, Status
from attnbench.schema.suite import Suite
from attnbench.session.asked import Impl, Only, SuiteLike, addresses, check_methods, one_of, placing, select
from attnbench.session.scout import INQUIRY_TIMEOUT, Scouted, environment_of, scout
from attnbench.store.cache import keep_answer, known_answer, known_roofs
from attnbench.suite.expand import Bundles, expand
from attnbench.worker.isolate import Isolation

if TYPE_CHECKING:
    import pandas as pd

_UNKNOWN = "unknown"
_MOST_ASKED = 20_000
"""The cells about which methods are asked; of a larger suite some are drawn."""
_LONG = (("days", 1440), ("h", 60))
"""What is said in place of minutes where there are many, with its minutes."""
_ALWAYS = ("workload", "mask", "dtype")
_STEADY = 0.6
"""The seconds of samples of a steady call."""
_PROCESS = {"cpu": (0.1, 1.0), "cuda": (1.5, 5.0)}
_CHECK = {"cpu": (0.5, 3.0), "cuda": (3.0, 30.0)}
"""Seconds of a process beside its samples, and of a check: on a CPU as seen on two cores; on a GPU, where a context is made and
kernels are loaded or compiled, an estimate."""


@dataclass(frozen=True)
class PlannedCell:
    """One cell, with what is known of it before it is measured; None is unknown."""

    cell: Cell
    seconds: float | None
    """That one call takes at least: executed FLOPs and least traffic against the roof that was measured last."""
    note: str
    """Why it will not be measured, as far as that is known; empty for one that will."""


@dataclass(frozen=True)
class Plan:
    """All cells of a suite on this machine, and how long it will take to measure them."""

    scouted: Scouted
    known: Surroundings | None
    """The machine with its roof, where that was ever measured."""
    share: float = 1.0
    """The share of the suite's bundles whose cells these are: 1, or of a large suite what was drawn at random."""
    assumed: str = ""
    """The name of the GPU that is not here and was taken for granted; its packages are, too."""

    @cached_property
    def cells(self) -> tuple[PlannedCell, ...]:
        """Every cell that was asked about, in the order of the suite."""
        costs, refused = self.scouted.costs(), self._refusals
        budget, found = self.scouted.suite.budget, []
        for cell in self.scouted.cells:
            cost, roof = costs.get(cell.key), self.known.roof.get(cell.ceiling) if self.known else None
            seconds = roof.fastest(cost.executed_flops, cost.traffic_bytes) if cost and roof else None
            note = ""
            if (refusal := refused.get(cell.key)) is not None:
                note = f"{refusal.status}: {refusal.reason}"
            elif seconds is not None and seconds > budget.seconds / 2:
                note = f"over budget ({budget.seconds / 2:g} s a call)"
            found.append(PlannedCell(cell, seconds, note))
        return tuple(found)

    @property
    def _refusals(self) -> Mapping[str, Failed]:
        """Why cells are ruled out; what is not installed here may be on a GPU that is elsewhere."""
        found = self.scouted.refusals()
        if not self.assumed:
            return found
        there = {key: prospect.why_not for key, prospect in self.scouted.prospects.items() if prospect.why_not is not None}
        unsupported = {key: Failed(status=Status.UNSUPPORTED, reason=why_not) for key, why_not in there.items()}
        return {key: why for key, why in found.items() if why.status is not Status.MISSING} | unsupported

    @property
    def summary(self) -> list[str]:
        """The size of it all, a line each."""
        scouted, known, suite = self.scouted, self.known, self.scouted.suite
        likely = [planned.cell for planned in self.cells if not planned.note]
        count, refused = len(scouted.cells), len(self._refusals)
        untimed = Counter(cell.workload.words for cell in likely if cell.workload.has_model or not cell.workload.is_timed)
        low, high = (seconds / 60 for seconds in duration(scouted, likely, self.share))
        unit, minutes = next((each for each in _LONG if high >= 2 * each[1]), ("min", 1))
        cells, measured = (round(number / self.share) for number in (count, count - refused))
        lines = [
            f"{units.counted(cells, 'cell')}, {measured:,} to be measured, x {units.counted(suite.replicates, 'replicate')}, "
            f"on {suite.device}",
            f"about {low / minutes:.0f} to {high / minutes:.0f} {unit}" if high >= 1 else "less than a minute",
        ]
        lines[-1] += "; cells over budget are rows, and cost little; memory is not predicted"
        if self.assumed:
            needed = {name for each in scouted.descriptions.values() for name in each.missing}
            packages = f", and as if {', '.join(sorted(needed))} were installed" if needed else ""
            lines.insert(0, f"as if an {self.assumed} were here{packages}; times by its data sheet, which no call can beat")
        if self.share < 1:
            lines.insert(0, f"estimated from {count:,} cells, drawn at random from about {cells:,}")
        if untimed:
            found = ", ".join(f"{number / self.share:,.0f} of {workload}" for workload, number in untimed.items())
            lines.append(f"cells that take as long as they take come on top: {found}")
        if any(cell.batch is Batch.LARGEST for cell in scouted.cells):
            lines.append("the searches for the largest B come on top; the time above is that of B = 1")
        if known is None:
            lines.append("times are unknown until this machine's roof was measured once: attnbench doctor")
        return lines

    @property
    def table(self) -> Table:
        """A row a cell, with the conditions that vary within the suite; of a large suite a row a method and workload."""
        if self.share < 1:
            return self._by_method()
        others = [name for name in varied(map(conditions, self.scouted.cells)) if name not in _ALWAYS]
        rows = []
        for planned in self.cells:
            cell, p = planned.cell, planned.cell.problem
            B = "max" if cell.batch is Batch.LARGEST else str(p.B)
            own = conditions(cell)
            about = (cell.workload.words, p.mask, p.dtype, *(own.get(name, "") for name in others))
            seconds = _UNKNOWN if planned.seconds is None else units.seconds(planned.seconds)
            rows.append((str(p.N), B, *about, cell.label, seconds, planned.note))
        headers = ("N", "B", *_ALWAYS, *others, "method", "a call, at least", "note")
        return Table(
            f"{self.scouted.suite.name} on {self.scouted.suite.device}", headers, tuple(rows), notes=tuple(self.summary)
        )

    def _by_method(self) -> Table:
        groups = grouped(((planned.cell.workload.words, planned.cell.label), planned) for planned in self.cells)
        rows = []
        for group, cells in sorted(groups.items()):
            lengths = [planned.cell.problem.N for planned in cells]
            likely = [planned.seconds for planned in cells if not planned.note and planned.seconds is not None]
            seconds = f"{units.seconds(min(likely))} to {units.seconds(max(likely))}" if likely else _UNKNOWN
            why_not = Counter(planned.note for planned in cells if planned.note)
            counts = (f"{len(cells) / self.share:,.0f}", f"{1 - why_not.total() / len(cells):.0%}")
            note = why_not.most_common(1)[0][0] if why_not else ""
            rows.append((*group, f"{min(lengths)} to {max(lengths)}", *counts, seconds, note))
        headers = ("workload", "method", "N", "cells, about", "measured", "a call, at least", "mostly why not")
        return Table(
            f"{self.scouted.suite.name} on {self.scouted.suite.device}", headers, tuple(rows), notes=tuple(self.summary)
        )

    def frame(self) -> "pd.DataFrame":
        """Return a row a cell that was asked about: seconds as numbers, empty where they are unknown."""
        import pandas as pd

        def row(planned: PlannedCell) -> dict[str, object]:
            cell, p = planned.cell, planned.cell.problem
            own: dict[str, object] = {"method": cell.label, "workload": cell.workload.value, "N": p.N, "causal": p.causal}
            own |= {"B": None if cell.batch is Batch.LARGEST else p.B, "cell": cell.key}
            return {**own, "dtype": p.dtype.value, "least_s_per_call": planned.seconds, "note": planned.note}

        return pd.DataFrame(map(row, self.cells))

    def __str__(self) -> str:
        return "\n".join([tabulate(self.table.rows, headers=self.table.headers), "", *self.summary])

    def _repr_html_(self) -> str:
        return f"{table_html(self.table)}<p>{'<br>'.join(self.summary)}</p>"


def plan(  # noqa: PLR0913 - one parameter an option
    suite: SuiteLike | None = None,
    *,
    methods: str | Sequence[str] = (),
    N: int | str | Sequence[int | str] = (),
    workloads: str | Sequence[str] = (),
    causal: bool | None = None,
    impl: Impl = (),
    device: str | None = None,
    assume: str = "",
) -> Plan:
    """List the cells of a suite, or of methods as `run` takes them, and the least time each takes; nothing is measured.

    `assume` is a GPU that is not here, as h200, by whose data sheet times are told. Raises UsageError, ScoutError.
    """
    only = Only(methods=methods, N=N, workloads=workloads, causal=causal)
    loaded, asked = select(suite, impl, device, only=only)
    sheet = DATA_SHEETS[one_of(DATA_SHEETS, assume, "assume")] if assume else None
    if sheet is not None and asked.device == "cpu":
        raise ArgumentError("assume", assume, "that is a GPU, and the suite is for a CPU; add --device cuda")
    with LocalStation() if sheet is None else Elsewhere(sheet=sheet) as station:
        with placing(loaded):
            scouted = scout(asked, station, lambda suite: expand(suite, _asked_about(suite)), roof=False, waits=False)
        digest = environment.digest(environment_of(station, scouted.surroundings))
    check_methods(loaded, scouted)
    share = len(_asked_about(scouted.suite)) / len(Bundles(scouted.suite))
    if sheet is not None:
        return Plan(scouted, sheet, share, str(sheet.facts["gpu"]))
    return Plan(scouted, known_roofs(digest), share)


def _asked_about(suite: Suite) -> Sequence[int]:
    """Return the numbers of all bundles, or of those of a large suite that are drawn."""
    bundles = Bundles(suite)
    most = max(1, _MOST_ASKED // bundles.most)
    return range(len(bundles)) if len(bundles) <= most else sorted(random.Random(0).sample(range(len(bundles)), most))  # noqa: S311 - no secret


def duration(scouted: Scouted, likely: Sequence[Cell], share: float = 1.0) -> tuple[float, float]:
    """Predict the seconds of timed cells with checks and memory passes: where all is steady, and where nothing is.

    The likely cells are that share of all; they have the checks of all.
    """
    suite, checked = scouted.suite, scouted.check_cells()
    timed = sum(cell.workload.is_timed and not cell.workload.has_model for cell in likely) / share
    checks = len({small.key for cell in likely for small in checked.get(cell.key, ())})
    samples = (min(_STEADY, suite.budget.seconds), suite.budget.seconds)
    kind = "cuda" if suite.device.startswith("cuda") else "cpu"
    low, high = (
        timed * (suite.replicates * (loop + process) + min(suite.replicates, suite.memory_replicates) * process)
        + checks * check
        for loop, process, check in zip(samples, _PROCESS[kind], _CHECK[kind], strict=True)
    )
    return low, high


def methods(
    pattern: str = "", *, family: str = "", available: bool = False, impl: Impl = ()
) -> Mapping[str, Description | Failed]:
    """Ask each installed attention what it says of itself, by name; or why it cannot be asked.

    Of a pattern, as `linear.*`, those whose names it fits; of a family, as `linear`, those of its folder; `available`: those
    whose packages are all installed. Raises UsageError where there is none, or where what the caller adds is no attention.
    """
    names = [name for name in registry.catalogue() if fnmatchcase(name, pattern or "*")]
    if not names:
        raise ArgumentError("pattern", pattern, registry.no_method(pattern))
    if family:
        wanted = one_of(dict.fromkeys(name.partition(".")[0] for name in names), family, "family")
        names = [name for name in names if name.partition(".")[0] == wanted]
    with Isolation() as worker:
        own = {name: _described(name, worker) for name in addresses(impl)}
        unknown = {name: a.reason for name, a in own.items() if isinstance(a, Failed) and a.facts.get("unknown")}
        if unknown:
            raise UsageError("\n".join(f"{name}: {reason}" for name, reason in unknown.items()))
        found = {**{name: _described(name, worker) for name in names}, **own}
    return {name: each for name, each in found.items() if not available or (isinstance(each, Description) and not each.missing)}


def _described(name: str, worker: Isolation) -> Description | Failed:
    """Return the kept answer, or a new one; that of a class in the current folder is not kept: others have such a folder."""
    entry = registry.find(name)
    if ":" not in name and (kept := known_answer(entry)) is not None:
        return kept
    answer, _ = worker.ask(Inquiry(method=name), INQUIRY_TIMEOUT)
    assert isinstance(answer, Description | Failed)
    if isinstance(answer, Description) and ":" not in name:
        keep_answer(entry, answer)
    return answer
