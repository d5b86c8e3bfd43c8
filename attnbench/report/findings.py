"""Findings: what every table, plot and text of one run is made from, computed once."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from attnbench.analyze.cells import CellSummary, summarize
from attnbench.analyze.headline import Statement, ranked
from attnbench.analyze.main_counter import MainCounter, main_counter
from attnbench.analyze.quantities import MEMORY, STATE_BYTES, TIME, Quantity, quantities
from attnbench.analyze.sections import Section, sections_of
from attnbench.report.text.names import drawable, names_of
from attnbench.schema.cell import Batch, Workload
from attnbench.schema.figures import FIGURES
from attnbench.schema.model import Model
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo, devices
from attnbench.schema.training import Training
from attnbench.schema.units import counted

Row = dict[str, Any]
"""A value in each column of a table of cells."""


@dataclass(frozen=True)
class Findings:
    """A run, its cells, its sections, and the memory counter that is shown (None where none was read)."""

    run: RunInfo
    summaries: tuple[CellSummary, ...]
    sections: tuple[Section, ...]
    counter: MainCounter | None
    damaged: int = 0
    """How many lines of the stored records are none, and so are left out."""

    @classmethod
    def of(cls, run: RunInfo, records: Iterable[Record], refused: Sequence[str] = ()) -> "Findings":
        """Make findings from the records alone, of which there may be none; `refused` grows by each line that is no record."""
        found = cls.over(run, summarize(run.cells, records))
        return replace(found, damaged=len(refused))

    @property
    def left_out(self) -> list[str]:
        """Say what could not be read, if anything."""
        lines = counted(self.damaged, "line")
        return [f"Left out: {lines} of the records that cannot be read; attnbench verify says why."] if self.damaged else []

    @classmethod
    def over(cls, run: RunInfo, summaries: Sequence[CellSummary]) -> "Findings":
        """Make findings from cells that are summarized already."""
        return cls(run, tuple(summaries), tuple(sections_of(run, summaries)), main_counter(summaries))

    def only(self, workloads: Sequence[Workload], labels: Sequence[str]) -> "Findings":
        """Keep what is named, or all where nothing is; fidelity stays, for it is what the others are weighed against."""
        place = {label: i for i, label in enumerate(labels or self.labels)}

        def belongs(summary: CellSummary) -> bool:
            workload = summary.cell.workload
            return summary.cell.label in place and (not workloads or workload in workloads or not workload.is_timed)

        kept = sorted(filter(belongs, self.summaries), key=lambda summary: place[summary.cell.label])
        return replace(Findings.over(self.run, kept), damaged=self.damaged)

    def relabelled(self, labels: Mapping[str, str]) -> "Findings":
        """Call methods, by their names or their labels, as it is said here rather than as the suite says."""
        suite = self.run.suite
        report = suite.report.model_copy(update={"labels": {**suite.report.labels, **labels}})
        return replace(self, run=self.run.model_copy(update={"suite": suite.model_copy(update={"report": report})}))

    @cached_property
    def statements(self) -> list[tuple[Section, Statement]]:
        """Return each section with what it amounts to, the most telling first."""
        return ranked(self.sections, causal_first=self.run.suite.axes.causal[0])

    @cached_property
    def quantities(self) -> dict[str, Quantity]:
        """Return all figures by name, as the cells of this run have them."""
        return quantities(self.summaries, self.run)

    @property
    def figures(self) -> list[Quantity]:
        """Return the figures of the vocabulary in its order, without the single counters of memory."""
        return [self.quantities[name] for name in FIGURES]

    def shows(self, section: Section, quantity: Quantity) -> bool:
        """Say whether a figure belongs to a section: some cell has it, or its failures are worth a look where cells should."""
        usual = {TIME: section.workload.is_timed, MEMORY: section.workload.is_timed, STATE_BYTES: section.workload.keeps_state}
        return usual.get(quantity.name, False) or any(quantity.values(cell) for cell in section.summaries)

    @property
    def labels(self) -> list[str]:
        """Return all methods with their parameters, in suite order."""
        return list(dict.fromkeys(s.cell.label for s in self.summaries))

    @cached_property
    def names(self) -> dict[str, str]:
        """Return by label what tables call the method: on one line and not too long; table.csv has it in full."""
        return names_of({label: self.called(label) for label in self.labels}, 48)

    @cached_property
    def plot_names(self) -> dict[str, str]:
        """Return by label what figures call the method: shorter, and only of letters that their font has."""
        # letters that their font lacks may be all that tells two names apart
        names = names_of({label: drawable(self.called(label)) for label in self.labels}, 40)
        return {label: drawable(name) for label, name in names.items()}

    def called(self, label: str) -> str:
        """Return a label under the name that the suite gives it, or its method: `report: {labels: {softmax.sdpa: Flash}}`."""
        chosen, (method, bracket, params) = self.run.suite.report.labels, label.partition("(")
        return chosen.get(label) or chosen.get(method, method) + bracket + params

    def tier(self, summary: CellSummary) -> str:
        """Say how the method is implemented; empty where it was never described."""
        description = self.run.methods.get(summary.cell.method)
        return description.tier if description else ""

    def place(self, summary: CellSummary) -> str:
        """Name the device that a cell was measured on, as conditions do; empty where all cells are of one."""
        return self._devices.get(summary.environment, next(iter(self._devices.values()), ""))

    @cached_property
    def _devices(self) -> dict[str, str]:
        return devices(self.run)

    def paper(self, summary: CellSummary) -> str:
        """Name the method's paper; empty where it was never described."""
        description = self.run.methods.get(summary.cell.method)
        return description.paper if description else ""

    def identity(self, summary: CellSummary) -> Row:
        """Return what a cell is: its method, its shape and all its conditions."""
        cell, p = summary.cell, summary.cell.problem
        return {
            "method": cell.method,
            "params": " ".join(f"{name}={value}" for name, value in sorted(cell.params.items())),
            "tier": self.tier(summary),
            "paper": self.paper(summary),
            "workload": cell.workload.value,
            "N": p.N,
            "B": None if cell.batch is Batch.LARGEST and "B" not in summary.facts else summary.B,
            "batch": cell.batch.value,
            "batch_bound": summary.bound or None,
            **{name: getattr(p, name) for name in ("H", "D", "M", "kv_heads")},
            "dtype": p.dtype.value,
            "causal": p.causal,
            "padding": p.padding,
            "device": cell.device,
            "inputs": cell.inputs.value,
            "recording": cell.recording or None,
            "scale": cell.scale,
            "allocator": cell.allocator.value,
            "matmul_precision": cell.matmul_precision.value,
            "clock_mode": cell.clock.value,
            "new_tokens": cell.new_tokens if cell.workload is Workload.VERIFY else None,
            # the model around the attention and what it learns; empty of a cell without one
            **(dict.fromkeys(Training.model_fields) | (cell.training.model_dump(mode="json") if cell.training else {})),
            **(dict.fromkeys(Model.model_fields) | (cell.model.model_dump(mode="json") if cell.model else {})),
        }
