"""Sections: cells that differ only in method, parameters and length, and so belong into one table or panel."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from typing import TypeVar

from attnbench.analyze.cells import CellSummary
from attnbench.schema.cell import Batch, Cell, Workload
from attnbench.schema.run import RunInfo, devices
from attnbench.schema.suite import Axes

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


def grouped(pairs: Iterable[tuple[_K, _V]]) -> dict[_K, list[_V]]:
    """Gather values by their key; keys and values stay in the order in which they come."""
    found: dict[_K, list[_V]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


@dataclass(frozen=True)
class Section:
    """One workload, causal or not, under one set of conditions."""

    workload: Workload
    causal: bool
    conditions: str
    """dtype, and those other axes that vary in this run: `float32, H=16`."""
    summaries: tuple[CellSummary, ...]
    named: tuple[str, ...] = ()
    """The methods that the suite wants the others to be compared with; where there are none, the fastest exact one."""
    exact: frozenset[str] = frozenset()
    """The methods that compute softmax attention itself."""

    @property
    def mask(self) -> str:
        """`causal` or `non-causal`."""
        return "causal" if self.causal else "non-causal"

    @property
    def title(self) -> str:
        """`forward, causal, float32`."""
        return f"{self.workload.words}, {self.mask}, {self.conditions}"

    @cached_property
    def series(self) -> dict[str, tuple[CellSummary, ...]]:
        """The cells of each label (method with parameters) by rising N, in suite order."""
        labels = dict.fromkeys(s.cell.label for s in self.summaries)
        rising = sorted(self.summaries, key=lambda s: s.cell.problem.N)
        return {label: tuple(s for s in rising if s.cell.label == label) for label in labels}

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """All lengths, rising."""
        return tuple(sorted({s.cell.problem.N for s in self.summaries}))

    def at(self, label: str, N: int) -> CellSummary | None:
        """Return one cell; None where the suite has none such."""
        return next((s for s in self.series.get(label, ()) if s.cell.problem.N == N), None)

    def ok_at(self, N: int) -> dict[str, CellSummary]:
        """Return the cells of one length that have numbers, by label."""
        return {s.cell.label: s for s in self.summaries if s.ok and s.cell.problem.N == N}

    @property
    def common_length(self) -> int | None:
        """The longest of the lengths at which the most methods have numbers; None where none has any."""
        return max(filter(self.ok_at, self.lengths), key=lambda N: (len(self.ok_at(N)), N), default=None)


def sections_of(run: RunInfo, summaries: Sequence[CellSummary]) -> list[Section]:
    """Return all sections of a run, each with what its methods are compared with."""
    found = []
    for section in sections(summaries, run.suite.axes, devices(run)):
        exact = {s.cell.method for s in section.summaries if run.is_softmax(s.cell.method)}
        found.append(replace(section, named=run.suite.report.baselines, exact=frozenset(exact)))
    return found


def sections(summaries: Sequence[CellSummary], axes: Axes, devices: Mapping[str, str] | None = None) -> list[Section]:
    """Return all sections of these cells, by workload, causal ones first, and then in the order of the suite.

    Where a run was measured on unlike devices, `devices` has their names by the digests of their environments, its own first:
    cells of one are never put beside those of another.
    """

    def in_words(summary: CellSummary) -> dict[str, str]:
        """Say what makes a section; a cell that was not run yet stands with those of the first device."""
        device = {"device": devices.get(summary.environment, next(iter(devices.values())))} if devices else {}
        return conditions_in_words(summary.cell) | device

    varying = varied(map(in_words, summaries))
    gathered: dict[tuple[Workload, bool, str], list[CellSummary]] = {}
    for rule, members in _by_batch(summaries, axes):
        for summary in members:
            cell = summary.cell
            # where something unusual is said of some cells, what is usual is said of the others
            usual = {"M": f"M={cell.problem.M}", "kv_heads": f"kv_heads={cell.problem.kv_heads}", "padding": "no padding"}
            about = {name: words or usual.get(name, "") for name, words in in_words(summary).items()}
            conditions = [cell.problem.dtype.value, *(text for name, text in about.items() if name in varying), rule]
            key = (cell.workload, cell.problem.causal, ", ".join(filter(None, conditions)))
            gathered.setdefault(key, []).append(summary)
    found = [Section(*key, tuple(own)) for key, own in gathered.items()]
    return sorted(found, key=lambda s: (list(Workload).index(s.workload), not s.causal))


def varied(told: Iterable[Mapping[str, str]]) -> list[str]:
    """Return the names of the conditions of which these tell several words; who tells nothing of one differs in none."""
    words = grouped(item for each in told for item in each.items())
    return [name for name, several in words.items() if len(set(several)) > 1]


def _by_batch(summaries: Sequence[CellSummary], axes: Axes) -> list[tuple[str, Sequence[CellSummary]]]:
    """Return the cells by the rule by which B follows from N, each with its name: one a section; a single one needs no name."""
    if len(axes.B) > 1 or "max" in axes.B:
        batches = [("max" if s.cell.batch is Batch.LARGEST else s.cell.problem.B, s) for s in summaries]
        every = dict.fromkeys(axes.B)
        return [("largest B that fits" if B == "max" else f"B={B}", [s for own, s in batches if own == B]) for B in every]
    if len(axes.tokens) > 1:
        return [
            (f"tokens={n}", [s for s in summaries if max(1, n // s.cell.problem.N) == s.cell.problem.B])
            for n in dict.fromkeys(axes.tokens)
        ]
    return [("", summaries)]


def conditions_in_words(cell: Cell) -> dict[str, str]:
    """Say by name what makes a section besides workload and mask: axes, and what describes the model around the attention."""
    p = cell.problem
    axes = {
        "H": f"H={p.H}",
        "D": f"D={p.D}",
        "M": "" if p.M == p.D else f"M={p.M}",
        "kv_heads": "" if p.kv_heads == p.H else f"kv_heads={p.kv_heads}",
        "padding": f"padding {p.padding:g}" if p.padding else "",
        "device": cell.device,
        "inputs": f"{cell.inputs.value} inputs",
        "recording": cell.recording,
        "scale": f"scale {cell.scale:g}",
        "allocator": f"allocator {cell.allocator.value}",
        "precision": f"matmul {cell.matmul_precision.value}",
        "clock": f"{cell.clock.value} clock",
        "new_tokens": f"{cell.new_tokens} new tokens" if cell.workload is Workload.VERIFY else "",
    }
    plain: dict[str, str] = {}
    if model := cell.model:
        weights = f"weights {model.weights}" if model.weights else "random weights"
        plain = {"config": model.config, "weights": weights, "text": model.text}
    elif training := cell.training:
        words = "gradient checkpointing" if training.recompute else "no gradient checkpointing"
        plain = {"task": training.task.value, "data": training.data, "recompute": words}
    around = model or cell.training
    described = around.model_dump() if around else {}
    return axes | {name: plain.get(name, f"{name}={value}") for name, value in described.items()}


def stops(series: Sequence[CellSummary]) -> dict[str, list[int]]:
    """Return by status the lengths of one method beyond the longest that has numbers, rising; by the first length of each."""
    beyond = [*takewhile(lambda summary: not summary.ok, reversed(series))]
    return grouped((summary.status, summary.cell.problem.N) for summary in reversed(beyond))


def longest(series: Sequence[CellSummary]) -> CellSummary | None:
    """Return the cell of the longest N that has numbers."""
    return next((s for s in reversed(series) if s.ok), None)
