"""`attnbench plan`: the cells of a suite, with predicted time and memory; nothing is measured."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from tabulate import tabulate

from attnbench.cli.select import check_methods, select
from attnbench.executors.scout import Scouted, scout
from attnbench.measure import environment
from attnbench.report.questions.trend.names import varied
from attnbench.schema import units
from attnbench.schema.cell import Batch, Cell
from attnbench.schema.errand import Surroundings
from attnbench.schema.outcome import Failed
from attnbench.store import roofs
from attnbench.worker.isolate import Isolation

_UNKNOWN = "unknown"
_ALWAYS = ("workload", "mask", "dtype")
_STEADY, _PROCESS, _CHECK = 0.6, (0.1, 1.0), (0.5, 3.0)
"""Seconds, as they were seen on two cores: of samples of a steady call; a process beside its samples; a check."""


def show_plan(name: str, impls: tuple[str, ...], device: str | None) -> None:
    """A row a cell: what it is, how long one call takes at least, and the memory that it is expected to need."""
    loaded, suite = select(name, impls, device)
    with Isolation() as worker:
        scouted = scout(suite, worker, roof=False)
    check_methods(loaded, scouted)
    known = roofs.recall(environment.digest(environment.gather() | scouted.surroundings.facts))
    refused = scouted.refusals()
    notes = {cell.key: note(cell, scouted, known, refused.get(cell.key)) for cell in scouted.cells}
    others = {name: words for name, words in varied(scouted.cells).items() if name not in _ALWAYS}
    rows = [row(cell, scouted, known, notes[cell.key], others.values()) for cell in scouted.cells]
    print(tabulate(rows, headers=["N", "B", *_ALWAYS, *others, "method", "a call, at least", "memory", "note"]))
    print()
    print("\n".join(summary(scouted, known, len(refused), [cell for cell in scouted.cells if not notes[cell.key]])))


def row(
    cell: Cell, scouted: Scouted, known: Surroundings | None, text: str, others: Iterable[Callable[[Cell], str]]
) -> list[str]:
    """One cell in words, with its `others`: conditions that vary within the suite."""
    p = cell.problem
    seconds, memory = floor_seconds(cell, scouted, known), peak_bytes(cell, scouted)
    return [
        str(p.N),
        "max" if cell.batch is Batch.LARGEST else str(p.B),
        cell.workload,
        "causal" if p.causal else "full",
        p.dtype,
        *(words(cell) for words in others),
        cell.label,
        _UNKNOWN if seconds is None else units.seconds(seconds),
        _UNKNOWN if memory is None else units.bytes_(memory),
        text,
    ]


def note(cell: Cell, scouted: Scouted, known: Surroundings | None, refusal: Failed | None) -> str:
    """Why a cell will not be measured, as far as that is known; empty for one that will."""
    if refusal is not None:
        return f"{refusal.status}: {refusal.reason}"
    seconds, memory = floor_seconds(cell, scouted, known), peak_bytes(cell, scouted)
    budget, notes = scouted.suite.budget, []
    if seconds is not None and seconds > budget.seconds / 2:
        notes.append(f"over budget ({budget.seconds / 2:g} s a call)")
    if memory is not None and memory > budget.memory * scouted.surroundings.memory_bytes:
        notes.append("over memory")
    return "; ".join(notes)


def floor_seconds(cell: Cell, scouted: Scouted, known: Surroundings | None) -> float | None:
    """Executed FLOPs and least traffic against the roof that was measured last; None where either is unknown."""
    cost = scouted.costs().get(cell.key)
    roof = known.roof.get(cell.ceiling) if known else None
    return None if cost is None or roof is None else roof.fastest(cost.executed_flops, cost.traffic_bytes)


def peak_bytes(cell: Cell, scouted: Scouted) -> float | None:
    """By the method's formula, beyond inputs and parameters."""
    cost = scouted.costs().get(cell.key)
    return None if cost is None else cost.peak_bytes


def summary(scouted: Scouted, known: Surroundings | None, refused: int, likely: Sequence[Cell]) -> list[str]:
    """The size of it all; `likely`: the cells that nothing is known to rule out."""
    suite, count = scouted.suite, len(scouted.cells)
    searched = any(cell.batch is Batch.LARGEST for cell in scouted.cells)
    untimed = Counter(cell.workload.value for cell in likely if cell.training or not cell.workload.is_timed)
    low, high = (seconds / 60 for seconds in duration(scouted, likely))
    lines = [
        f"{count} cells, {count - refused} to be measured, x {suite.replicates} replicates, on {suite.device}",
        f"about {low:.0f} to {high:.0f} min" if high >= 1 else "less than a minute",
    ]
    lines[-1] += "; cells over budget or memory are rows, and cost little"
    if untimed:
        cells = ", ".join(f"{number} of {workload}" for workload, number in untimed.items())
        lines.append(f"cells that take as long as they take come on top: {cells}")
    if searched:
        lines.append("the searches for the largest B come on top; time and memory above are those of B = 1")
    if known is None:
        lines.append("times are unknown until this machine's roof was measured once: attnbench doctor")
    return lines


def duration(scouted: Scouted, likely: Sequence[Cell]) -> tuple[float, float]:
    """Seconds that the timed cells take, checks and memory passes among them: where all is steady, and where nothing is."""
    suite = scouted.suite
    timed = [cell for cell in likely if cell.workload.is_timed and not cell.training]
    checks = len({small.key for cell in likely for small in scouted.check_cells().get(cell.key, ())})
    samples = (min(_STEADY, suite.budget.seconds), suite.budget.seconds)
    low, high = (
        len(timed) * (suite.replicates * (loop + process) + min(suite.replicates, suite.memory_replicates) * process)
        + checks * check
        for loop, process, check in zip(samples, _PROCESS, _CHECK, strict=True)
    )
    return low, high
