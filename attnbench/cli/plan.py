"""`attnbench plan`: the cells of a suite, with predicted time and memory; nothing is measured."""

from tabulate import tabulate

from attnbench.cli.select import check_methods, select
from attnbench.executors.scout import Scouted, scout
from attnbench.measure import environment
from attnbench.schema import units
from attnbench.schema.cell import Batch, Cell
from attnbench.schema.errand import Surroundings
from attnbench.schema.outcome import Failed
from attnbench.store import roofs
from attnbench.worker.isolate import Isolation

_UNKNOWN = "unknown"


def show_plan(name: str, impls: tuple[str, ...], device: str | None) -> None:
    """A row a cell: what it is, how long one call takes at least, and the memory that it is expected to need."""
    loaded, suite = select(name, impls, device)
    with Isolation() as worker:
        scouted = scout(suite, worker, roof=False)
    check_methods(loaded, scouted)
    known = roofs.recall(environment.digest(environment.gather() | scouted.surroundings.facts))
    refused = scouted.refusals()
    notes = {cell.key: note(cell, scouted, known, refused.get(cell.key)) for cell in scouted.cells}
    rows = [row(cell, scouted, known, notes[cell.key]) for cell in scouted.cells]
    print(tabulate(rows, headers=["N", "B", "workload", "causal", "method", "a call, at least", "memory", "note"]))
    print()
    print("\n".join(summary(scouted, known, len(refused), sum(not text for text in notes.values()))))


def row(cell: Cell, scouted: Scouted, known: Surroundings | None, text: str) -> list[str]:
    """One cell in words."""
    p = cell.problem
    seconds, memory = floor_seconds(cell, scouted, known), peak_bytes(cell, scouted)
    return [
        str(p.N),
        "max" if cell.batch is Batch.LARGEST else str(p.B),
        cell.workload,
        "yes" if p.causal else "no",
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
    return None if cost is None or roof is None else cost.floor_seconds(roof.flops_per_second, roof.bytes_per_second)


def peak_bytes(cell: Cell, scouted: Scouted) -> float | None:
    """By the method's formula, beyond inputs and parameters."""
    cost = scouted.costs().get(cell.key)
    return None if cost is None else cost.peak_bytes


def summary(scouted: Scouted, known: Surroundings | None, refused: int, likely: int) -> list[str]:
    """The size of it all."""
    suite, count = scouted.suite, len(scouted.cells)
    # warm-up and samples of each replicate end within the budget; a memory pass takes about as long
    most = likely * suite.budget.seconds * (suite.replicates + suite.memory_replicates)
    searched = any(cell.batch is Batch.LARGEST for cell in scouted.cells)
    about = "about" if searched else "at most about"
    lines = [
        f"{count} cells, {count - refused} to be measured, x {suite.replicates} replicates, on {suite.device}",
        f"{about} {max(1, round(most / 60))} min; cells over budget or memory are rows, and cost nothing",
    ]
    if searched:
        lines.append("the searches for the largest B come on top; time and memory above are those of B = 1")
    if known is None:
        lines.append("times are unknown until this machine's roof was measured once: attnbench doctor")
    return lines
