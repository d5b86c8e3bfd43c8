"""One call of a stored run's cell under a profiler: its kernels, its timeline, and the commands of a GPU's own profilers."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Unpack

from tabulate import tabulate

from attnbench.library.runs import RunLike, read
from attnbench.report.text.names import one_line
from attnbench.schedule.ledger import Ledger
from attnbench.schedule.steps import Server, Step
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import TIMELINE, Pass
from attnbench.schema.errors import ArgumentError, AttnbenchError
from attnbench.schema.outcome import Failed
from attnbench.schema.units import counted
from attnbench.session.asked import cells_meant
from attnbench.session.scene import How, Measuring, Scene
from attnbench.store.files import write_named

_MOST = 20


@dataclass(frozen=True)
class Trace:
    """The kernels that a call ran. Printed, it is a table of kernels, and how to look closer."""

    cell: Cell
    kernels: Mapping[str, str]
    """By name, the longest first: how often and how long; of a call that was only marked nothing."""
    file: Path | None
    again: str
    """The command that makes the same call, marked, for nsys and ncu to run."""

    def __str__(self) -> str:
        p, rows = self.cell.problem, list(self.kernels.items())
        lines = [f"{self.cell.label}, {self.cell.workload.words}, N={p.N}, {p.dtype}"]
        if rows:
            # of a sequence that is generated the call is the last of its steps
            of = "in the step of the last token" if self.cell.workload is Workload.GENERATE else "in one call"
            lines += [tabulate(rows[:_MOST], headers=("kernel", of))]
        if len(rows) > _MOST:
            lines += [f"and {counted(len(rows) - _MOST, 'other')}"]
        if self.file is not None:
            lines += [f"timeline, for chrome://tracing or Perfetto: {self.file}"]
        if self.cell.device_kind == "cuda" and self.file is not None:
            lines += [
                f"nsys profile --capture-range=cudaProfilerApi -o trace {self.again}",
                f"ncu --profile-from-start off --target-processes all -o trace {self.again}",
            ]
        return "\n".join(lines)


def trace(run: RunLike, cell: str, *, out: str | Path | None = "trace.json", **how: Unpack[Measuring]) -> Trace:
    """Profile one call of a cell (of `generate` its last step), after two that warm up, and write its timeline to `out`.

    `cell` is the beginning of a key, as the column `cell` of table.csv has it. With `out=None` nothing is profiled here: on a
    GPU the call is marked by cudaProfilerStart and Stop. Raises ArgumentError, ScoutError, OSError; AttnbenchError where the
    call fails.
    """
    asked, then = How.of(how, "trace", cell, without=("impl", "device", "replicates")), read(run)
    if out is None:
        # a GPU's profilers follow programs that are started, and no forks of a warm process
        asked = replace(asked, fresh=True)
    chosen, *others = cells_meant(then.info.cells, cell)
    if others:
        raise ArgumentError("cell", cell, f"{1 + len(others)} cells are called so; name one by its key, as {chosen.key[:12]}")
    if chosen.workload is Workload.MODEL_QUALITY:
        raise ArgumentError("cell", cell, "what a model says is scored and has no call to trace; its model_prefill has one")
    if out is None and chosen.device_kind != "cuda":
        raise ArgumentError("out", out, "marks are for a GPU's profilers, and this cell ran on a CPU; name a file")
    with Scene(asked) as scene, TemporaryDirectory() as folder:
        scouted = scene.scout(then.info.suite, lambda _: [chosen], roof=False)
        if refusal := scouted.refusals().get(chosen.key):
            raise AttnbenchError(f"{chosen.label}: {refusal.status}: {refusal.reason}")
        info = scene.describe(scouted)
        jobs = scouted.jobs(info, Ledger.of(then.records()))
        job = jobs.job(chosen, Pass.TRACE, 0).model_copy(update={"folder": None if out is None else folder})
        with scene.place(info) as place:
            record = place.do(Step(job, Server((0,))))
        if isinstance(record.outcome, Failed):
            raise AttnbenchError(f"{chosen.label}: {record.outcome.status}: {one_line(record.outcome.reason)}")
        if out is not None:
            write_named(Path(out), (Path(folder) / TIMELINE).read_bytes())
    again = f"attnbench trace {shlex.quote(str(then.path))} {chosen.key[:12]} --marks"
    kernels = {name: str(value) for name, value in record.outcome.facts.items()}
    return Trace(chosen, kernels, None if out is None else Path(out), again)
