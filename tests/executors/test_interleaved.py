"""In which order two sides are measured; the sides are played."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

from attnbench.executors.interleaved import Interleaved
from attnbench.executors.local import LocalExecutor
from attnbench.schema.cell import Cell
from attnbench.schema.errand import Job
from attnbench.schema.outcome import Failed, Status
from attnbench.schema.problem import Problem
from attnbench.schema.record import Record

CELLS = tuple(Cell(method=method, problem=Problem(N=N)) for N in (64, 128) for method in ("a", "b"))


class Suite:
    seed = 0


@dataclass
class RunInfo:
    cells: tuple[Cell, ...] = CELLS
    suite: type[Suite] = Suite


@dataclass
class Side:
    """Remembers rounds and replicates in a log that both sides share."""

    name: str
    log: list[tuple[str, str, int]]
    run_info: RunInfo = field(default_factory=RunInfo)
    rounds: int = 0
    open: bool = False
    broken_by: Record | None = None

    @contextmanager
    def round(self) -> Iterator[None]:
        self.rounds, self.open = self.rounds + 1, True
        yield
        self.open = False

    def replicate(self, cell: Cell, replicate: int) -> Iterator[Record]:
        assert self.open
        self.log.append((self.name, cell.key, replicate))
        yield recorded(cell, replicate)

    def interrupted(self) -> Record | None:
        return self.broken_by


def recorded(cell: Cell, replicate: int) -> Record:
    failed = Failed(status=Status.MISSING, reason="played")
    return Record(job=Job(cell=cell, replicate=replicate), outcome=failed, environment="e", started="")


def sides() -> tuple[Side, Side, Interleaved]:
    log: list[tuple[str, str, int]] = []
    old, new = Side("old", log), Side("new", log)
    return old, new, Interleaved(cast("tuple[LocalExecutor, LocalExecutor]", (old, new)))


def keys(cells: Any = CELLS) -> set[str]:
    return {cell.key for cell in cells}


def test_each_cell_is_measured_on_one_side_right_after_the_other() -> None:
    old, new, turns = sides()
    records = list(turns.run(range(3), keys()))
    pairs = [old.log[i : i + 2] for i in range(0, len(old.log), 2)]
    assert len(records) == 2 * 3 * len(CELLS)
    assert all(a[1:] == b[1:] and {a[0], b[0]} == {"old", "new"} for a, b in pairs)
    assert (old.rounds, new.rounds) == (3, 3)


def test_neither_side_is_always_the_first() -> None:
    old, _, turns = sides()
    list(turns.run(range(20), keys()))
    first = Counter(name for name, *_ in old.log[::2])
    assert min(first["old"], first["new"]) > 20


def test_a_record_comes_with_the_side_that_it_belongs_to() -> None:
    old, _, turns = sides()
    came = [
        ("new" if side else "old", record.job.cell.key, record.job.replicate) for side, record in turns.run(range(2), keys())
    ]
    assert came == old.log


def test_only_what_is_still_wanted_goes_on() -> None:
    old, _, turns = sides()
    list(turns.run(range(5, 7), keys(CELLS[:1])))
    assert {(key, replicate) for _, key, replicate in old.log} == {(CELLS[0].key, 5), (CELLS[0].key, 6)}


def test_lengths_rise_within_a_replicate() -> None:
    old, _, turns = sides()
    list(turns.run(range(1), keys()))
    lengths = {cell.key: cell.problem.N for cell in CELLS}
    assert all(lengths[a[1]] <= lengths[b[1]] for a, b in pairwise(old.log))


def test_what_was_in_flight_is_told_for_each_side() -> None:
    _, new, turns = sides()
    new.broken_by = recorded(CELLS[0], 0)
    assert turns.interrupted() == [(1, new.broken_by)]
