"""The jobs of a cell: checks, the search for a batch, the passes of each replicate, and second tries."""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field

from attnbench.schedule.ledger import Ledger
from attnbench.schedule.steps import Schedule, Server, Step
from attnbench.schema.cell import Allocator, Batch, Cell, draw_seed
from attnbench.schema.errand import FIT_SHARE, Job, Limits, Pass, main_pass
from attnbench.schema.outcome import Failed, Status
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo

_PIECES, _MOST_MEMORY = 2.0, 0.9
"""The timing of a batch that was found may take so many times its share of memory, but at most this share of all."""
MOST_ROWS = 2**16 - 1
"""The largest batch that a search tries: CUDA kernels that count rows along a grid can have no more."""


@dataclass
class CellJobs:
    """Gives the jobs that the cells of a run still lack, by what its ledger knows; the ledger learns from each record."""

    run_info: RunInfo
    ledger: Ledger
    refusals: dict[str, Failed] = field(default_factory=dict)
    """The reason, by cell key, for cells that their method or a missing package rules out before anything is started."""
    check_cells: dict[str, tuple[Cell, ...]] = field(default_factory=dict)
    """The cells on which the method is checked first, by cell key."""
    change: Callable[[Job], Job] = lambda job: job
    """Changes a job before it is given."""
    took: Callable[[Record], object] = id
    """Is told each record."""

    def finished(self, cell: Cell) -> bool:
        """Say whether nothing is left to do for a cell."""
        every = range(self.run_info.suite.replicates)
        return all(next(self.replicate(cell, replicate, Server((replicate,))), None) is None for replicate in every)

    def replicate(self, cell: Cell, replicate: int, server: Server) -> Schedule:
        """Give what one replicate of one cell still lacks."""
        if self.ledger.failed(cell):
            return
        if not self.ledger.finished(cell, main_pass(cell), replicate):
            yield from self.main(cell, replicate, server)
        wants_memory = cell.workload.is_timed and replicate < self.run_info.suite.memory_replicates
        if wants_memory and self.ledger.measured(cell) and not self.ledger.finished(cell, Pass.MEMORY, replicate):
            yield from self.tries(self.job(cell, Pass.MEMORY, replicate), server)

    def main(self, cell: Cell, replicate: int, server: Server) -> Schedule:
        """Give the main pass of one replicate, after the checks and the search for a batch that it needs."""
        reason = self.refusals.get(cell.key) or self._over_budget(cell)
        if reason is None:
            reason = yield from self.checks(cell, server)
        if reason is not None or cell.batch is not Batch.LARGEST:
            yield from self.tries(self.job(cell, main_pass(cell), replicate), server, reason)
            return
        # a batch that fitted for two calls and runs out of memory when measured was too large: the search goes on
        while not self.ledger.finished(cell, main_pass(cell), replicate):
            yield from self.fit(cell, server)
            yield from self.tries(self.job(cell, main_pass(cell), replicate), server, self.ledger.misfit(cell))

    def checks(self, cell: Cell, server: Server) -> Generator[Step, Record, Failed | None]:
        """Give the checks of its method that are still to be made, until one fails; return why the cell need not be started."""
        description, smalls = self.run_info.methods.get(cell.method), self.check_cells.get(cell.key, ())
        # the heads are those of its checks: a whole model repeats keys and values for a method without groups
        first, *_ = (*smalls, cell)
        known = cell.reshaped(kv_heads=cell.problem.H) if first.problem.kv_heads == first.problem.H else cell
        tuned_at = known if description is not None and description.tunes else None
        for small in smalls:
            if not self.ledger.checked(small) and self.ledger.rejected(known) is None:
                job = self.job(small, Pass.CHECK, 0).model_copy(update={"tuned_at": tuned_at})
                yield from self.tries(job, server)
        return self.ledger.hopeless(cell, known)

    def fit(self, cell: Cell, server: Server) -> Schedule:
        """Search for the largest batch that fits, with each trial in a process of its own."""
        while (B := self.ledger.next_batch(cell, MOST_ROWS)) is not None:
            yield from self.tries(self.job(cell, Pass.FIT, 0).model_copy(update={"B": B}), server)

    def tries(self, job: Job, server: Server, settled: Failed | None = None) -> Schedule:
        """Give a job, and again while it was disturbed; one that is settled is never that. Every attempt is a record."""
        disturbed = True
        while disturbed:
            record = yield from self.step(Step(self.ledger.again(job), server, settled))
            disturbed = self.ledger.disturbed(record)

    def step(self, step: Step) -> Generator[Step, Record, Record]:
        """Give one step, and let the ledger learn from its record, which is returned."""
        record = yield step
        self.ledger.add(record)
        self.took(record)
        return record

    def _over_budget(self, cell: Cell) -> Failed | None:
        """Refuse a cell whose every call must take more than half the budget, by its FLOPs and bytes and the measured roof.

        Where a call of this run was faster than the roof allows, the roof is raised by as much.
        """
        cost = self.run_info.costs.get(cell.key)
        roof = self.run_info.surroundings.roof.get(cell.ceiling)
        half = self.run_info.suite.budget.seconds / 2
        if cost is None or roof is None or self.ledger.measured(cell):
            return None
        floor = roof.fastest(cost.executed_flops, cost.traffic_bytes) / self.ledger.above_roof(cell.ceiling)
        if floor <= half:
            return None
        reason = f"not started: a call takes at least {floor:.3g} s by the roof, {half:g} s are allowed"
        return Failed(status=Status.BUDGET, reason=reason)

    def job(self, cell: Cell, phase: Pass, replicate: int) -> Job:
        """Return one pass of one replicate, with its seed and all its limits."""
        suite, B, p = self.run_info.suite, self.ledger.batch(cell), cell.problem
        flops = 0.0
        if phase is Pass.TIME:
            # the least that a call executes: by the method's formula, or as torch counted in its checks, whichever is more
            cost = self.run_info.costs.get(cell.key)
            stated = cost.executed_flops * (B or p.B) / p.B if cost is not None else 0.0
            flops = max(stated, self.ledger.counted_flops(cell) * (B or p.B) * p.H)
        # only the first replicate may find a cell too slow: later ones repeat what was found to fit
        # (and a batch was searched for under that very limit)
        first_time = phase is Pass.TIME and cell.batch is Batch.FIXED and not self.ledger.measured(cell)
        first_call = suite.budget.seconds / 2 if first_time or phase is Pass.FIT else None
        limits = Limits(
            seconds=suite.budget.seconds,
            timeout=suite.budget.timeout_of(cell.device_kind, checks=phase is Pass.CHECK),
            memory_bytes=self.memory_bytes(cell, phase),
            first_call=first_call,
            flops=flops,
            roof=self.run_info.surroundings.roof.get(cell.ceiling) if phase is Pass.TIME else None,
        )
        seed, warmup = draw_seed(suite.seed, cell, replicate), self.ledger.warmup(cell)
        return self.change(Job(cell=cell, phase=phase, replicate=replicate, seed=seed, B=B, warmup=warmup, limits=limits))

    def memory_bytes(self, cell: Cell, phase: Pass) -> int | None:
        """Return the suite's share of the memory that was free at the start; None on a GPU, whose allocator limits itself."""
        if cell.device_kind != "cpu":
            return None
        share = self.run_info.suite.budget.memory
        if phase is Pass.FIT:
            # a batch that only just fits would fail in a pass that measures memory while it runs
            share *= FIT_SHARE
        elif phase is main_pass(cell) and cell.batch is Batch.LARGEST and cell.allocator is Allocator.RETAIN:
            # this batch was found to fit: small free blocks that the heap keeps between calls are not the method's memory
            share = max(share, min(_PIECES * share, _MOST_MEMORY))
        return int(share * self.run_info.surroundings.memory_bytes)
