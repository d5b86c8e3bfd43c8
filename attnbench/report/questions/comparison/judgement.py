"""Judgement: all comparisons of one question, and how the answer must be read; what every form of it is made from."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from attnbench.analyze.compare import ORDER, Comparison, Terms, is_lost, worst_first
from attnbench.analyze.main_counter import MainCounter
from attnbench.analyze.statistics import ENOUGH
from attnbench.analyze.verdict import Verdict
from attnbench.report.text.names import one_line
from attnbench.report.text.numbers import percent
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.training import Training

_TIMED = "Time per sample of the batch, new over old: above 1 the new side takes longer"
_LEARNT = "Of training the time of an update and its memory are judged, and not what was learnt."
_UNPAIRED = (
    "The sides were measured one after the other: what the machine did between them (drift, heat, other work) "
    "is in no interval. `attnbench compare --live` measures them in turns."
)


@dataclass(frozen=True)
class Judgement:
    """Two sides with their names, what was found, and under which terms."""

    title: str
    names: tuple[str, str]
    """Of the old and of the new side."""
    comparisons: tuple[Comparison, ...]
    terms: Terms
    counter: MainCounter | None = None
    remarks: tuple[str, ...] = ()
    """What else is different between the sides, in words."""

    @cached_property
    def sorted(self) -> list[Comparison]:
        """What needs a look first."""
        return worst_first(self.comparisons)

    @property
    def conclusion(self) -> str:
        """`1 SLOWER, 2 UNCLEAR, 9 SAME; 1 of more memory`, worst first."""
        counts = Counter(comparison.verdict for comparison in self.comparisons)
        words = [f"{counts[verdict]} {verdict}" for verdict in ORDER if counts[verdict]]
        memory = Counter(c.memory.verdict for c in self.comparisons if c.memory)
        more = [f"{memory[v]} of {w} memory" for v, w in ((Verdict.SLOWER, "more"), (Verdict.FASTER, "less")) if memory[v]]
        return "; ".join(filter(None, (", ".join(words) or "nothing to compare", ", ".join(more))))

    @property
    def lost(self) -> list[Comparison]:
        """Cells that used to give numbers."""
        return [comparison for comparison in self.sorted if is_lost(comparison)]

    @property
    def unclear(self) -> list[Comparison]:
        """Cells of which nothing can be said yet."""
        return [comparison for comparison in self.sorted if comparison.verdict is Verdict.UNCLEAR]

    @cached_property
    def notes(self) -> list[str]:
        """How the numbers were made."""
        reach, terms = percent(self.terms.margin), self.terms
        ratios = [c.ratio for c in self.comparisons if c.ratio]
        counts = sorted({ratio.replicates for ratio in ratios})
        few = [f"Fewer than {ENOUGH} replicates somewhere: a first look."] if counts and counts[0] < ENOUGH else []
        what = "replicates paired, as they were measured in turns" if terms.paired else "replicates not paired (Welch)"
        lines = [
            f"{_TIMED}. Mean log-ratio of replicate medians with its 95 % t interval, {what}; "
            f"n = {_span(counts)} a side; margin {reach}.",
            f"SLOWER, FASTER: p ≤ {terms.level:.3g} after Benjamini-Hochberg over {len(ratios)} ratios, and the effect beyond "
            "the margin. SAME: the interval lies within the margin. UNCLEAR: neither; more replicates may tell.",
        ]
        lines += [*few, *([] if terms.paired else [_UNPAIRED]), *self._memory_note(), *self._training_note()]
        return [*lines, *map(one_line, self.remarks)]

    def _memory_note(self) -> list[str]:
        if self.counter is None:
            return ["Memory was not compared: no counter was read that is the same in every process."]
        return [
            f"Memory: {self.counter.name} ({one_line(self.counter.source)}) per sample; a change counts beyond the margin "
            "and 1 MiB, without statistics: this counter is the same in every process."
        ]

    def _training_note(self) -> list[str]:
        return [_LEARNT] if any(c.pair.any.cell.workload is Workload.TRAIN for c in self.comparisons) else []


def conditions(cell: Cell) -> list[str]:
    """`float32`, `B=4`, `H=8`, `D=64`, …: all of a cell but its method, workload, mask and length."""
    p = cell.problem
    return [p.dtype.value, f"B={p.B}", f"H={p.H}", f"D={p.D}", *_unusual(cell)]


def _unusual(cell: Cell) -> Iterable[str]:
    """What is said only where it is not the default."""
    p, plain = cell.problem, Cell(method=cell.method, problem=cell.problem)
    own = {
        f"M={p.M}": p.M != p.D,
        f"kv_heads={p.kv_heads}": p.kv_heads != p.H,
        f"padding {p.padding:g}": p.padding > 0,
        one_line(f"recording {cell.recording}"): cell.recording != plain.recording,
        f"scale {cell.scale:g}": cell.scale != plain.scale,
    }
    yield from (words for words, unusual in own.items() if unusual)
    yield from _model(cell.training) if cell.training else ()
    for name in ("inputs", "allocator", "matmul_precision", "clock", "batch"):
        if (value := getattr(cell, name)) != getattr(plain, name):
            yield f"{name} {value.value}"


def _model(training: Training) -> Iterable[str]:
    """`task copy`, `layers=2`."""
    for name, value in training.model_dump(mode="json", exclude_defaults=True).items():
        yield one_line(f"{name} {value}") if name in {"task", "data"} else f"{name}={value}"


def timed(comparison: Comparison) -> bool:
    """Whether there is a time to compare at all."""
    return comparison.pair.any.cell.workload.is_timed


def _span(counts: list[int]) -> str:
    if not counts:
        return "0"
    return str(counts[0]) if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"
