"""`attnbench check`: one method held against its own definition, as before it is timed in a run; nothing else."""

import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pydantic import ValidationError

from attnbench import registry
from attnbench.cli.collect import exits_when_interrupted, lane_of_command
from attnbench.cli.errors import FAILED, UsageError
from attnbench.cli.run import describe_run
from attnbench.cli.select import is_address, no_parameter, refused, takes
from attnbench.cli.show import parameter
from attnbench.executors.base import check_group
from attnbench.executors.checking import CheckExecutor
from attnbench.executors.ledger import Ledger
from attnbench.executors.scout import Scouted, scout
from attnbench.report.text.names import one_line
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.outcome import Failed
from attnbench.schema.record import Record
from attnbench.schema.suite import Suite
from attnbench.worker.isolate import Isolation

_PADDING = 0.25


@dataclass(frozen=True)
class Options:
    """What the command line said."""

    method: str
    N: int
    width: int
    dtype: str
    params: tuple[str, ...]
    device: str
    wait: bool = True
    """Whether another run that measures on the device is waited for: what is computed here would disturb it."""


def check(options: Options) -> None:
    """Print a line for each kind of call; raises UsageError, ScoutError; exits with 1 where something is not correct."""
    suite = _suite(options)
    with exits_when_interrupted(), Isolation() as worker:
        lane = lane_of_command(wait=options.wait)
        scouted = scout(suite, worker, roof=False, lane=lane)
        _refuse(options, scouted)
        # decoding is causal and without padding
        kinds = tuple(c for c in scouted.cells if not c.workload.decodes or (c.problem.causal and not c.problem.padding))
        scouted = replace(scouted, cells=kinds)
        executor = CheckExecutor(
            describe_run(scouted),
            Ledger(),
            refusals=scouted.refusals(),
            check_cells=scouted.check_cells(),
            isolation=lambda: worker,
            lane=lane,
        )
        records = list(executor.run())
    print(kinds[0].label)
    for cell in kinds:
        print("\n".join(_lines(cell, scouted, [record for record in records if _speaks_for(record, cell)])))
    wrong = [record for record in records if not record.ok]
    if wrong or not records:
        print("not correct" if wrong else "nothing could be checked", file=sys.stderr)
        sys.exit(FAILED)
    print("correct, as far as these checks go")


def _suite(options: Options) -> Suite:
    """All kinds of calls of one method; raises UsageError."""
    name = options.method
    if not is_address(name) and name not in registry.catalogue():
        raise UsageError(registry.no_method(name))
    axes = {"N": options.N, "D": options.width, "dtype": options.dtype, "causal": (False, True), "padding": (0.0, _PADDING)}
    method = {"name": name, "params": {key: (value,) for key, value in map(parameter, options.params)}}
    try:
        return Suite.model_validate(
            {"name": "check", "device": options.device, "axes": axes, "methods": (method,), "workloads": ("forward", "decode")}
        )
    except ValidationError as error:
        raise refused(error, vars(options)) from None


def _refuse(options: Options, scouted: Scouted) -> None:
    """What cannot be asked, lacks a package or has no such parameter; raises UsageError."""
    name = options.method
    if (failed := scouted.failures.get(name)) is not None:
        raise UsageError(f"{name}: {failed.reason}")
    description = scouted.descriptions[name]
    if description.missing:
        raise UsageError(registry.pip_line(name, description.missing))
    for param in scouted.suite.methods[0].params:
        if not takes(description.parameters, param):
            raise UsageError(f"--param {param}: {no_parameter(param, description.parameters)}")


def _speaks_for(record: Record, cell: Cell) -> bool:
    return check_group(record.job.cell) == check_group(cell)


def _lines(cell: Cell, scouted: Scouted, records: Sequence[Record]) -> Iterator[str]:
    """One kind of call: why it was not checked, or what came of it at each shape."""
    p = cell.problem
    how = "causal, token by token" if cell.workload.decodes else "causal" if p.causal else "not causal"
    kind = f"{how}, padded" if p.padding else how
    refusal = scouted.refusals().get(cell.key)
    if refusal is not None or not records:
        yield f"  {kind}: not checked: {one_line(refusal.reason) if refusal else 'it takes no length that is short enough'}"
    for record in records:
        p, outcome = record.job.cell.problem, record.outcome
        grads = "with gradients, " if record.job.cell.workload is Workload.FORWARD_BACKWARD else ""
        where = f"{kind}, {grads}B={p.B}, H={p.H}, N={p.N}"
        if isinstance(outcome, Failed):
            yield f"  {where}: {outcome.status}: {one_line(outcome.reason)}"
            yield textwrap.indent(outcome.detail.rstrip(), "      ")
        else:
            share = float(outcome.facts["error"] or 0) / float(outcome.facts["tolerance"] or 1)
            yield f"  {where}: correct; at most {share:.0%} of the error that is allowed, in {outcome.facts['worst']}"
