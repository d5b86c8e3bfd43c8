"""`attnbench selfcheck`: one method under two names, through all that a gate does, to see what its verdicts are worth here."""

import shlex
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from attnbench import registry
from attnbench.analyze.gate import FIRST
from attnbench.analyze.selfcheck import FEWEST, Calibration, calibrate, looked_at
from attnbench.cli.amounts import share
from attnbench.cli.collect import collect, exits_when_interrupted, lane_of_command
from attnbench.cli.doctor import disturbance
from attnbench.cli.errors import FAILED, UsageError
from attnbench.cli.rounds import Rounds
from attnbench.cli.run import describe_run
from attnbench.cli.select import refused
from attnbench.cli.signals import Interrupted
from attnbench.cli.told_apart import told_apart
from attnbench.executors.lane import Lane
from attnbench.executors.ledger import Ledger
from attnbench.executors.scout import Scouted, scout
from attnbench.executors.selfcheck import SelfcheckExecutor, warmups_of
from attnbench.report.text.numbers import percent
from attnbench.schema.errand import Pass
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.schema.selfcheck import Selfcheck
from attnbench.schema.suite import MOST_PROCESSES, Axes, Budget, Method, Suite
from attnbench.store import noise_floor, selfcheck_plan
from attnbench.store.files import write_durably
from attnbench.store.lock import FolderLock
from attnbench.store.run_folder import RunFolder, StoreError
from attnbench.worker.isolate import Isolation

_SLOWED = "attnbench.workloads.slowed:Slowed"
_MARGIN = "5%"


@dataclass(frozen=True)
class Options:
    """What the command line said, with what holds where it said nothing."""

    method: str = "softmax.sdpa"
    N: int = 512
    causal: bool = False
    verdicts: int = 200
    replicates: int = 10
    seconds: float = 0.2
    inject: str = ""
    device: str = "auto"
    out: Path = Path("results")


def selfcheck(given: Mapping[str, Any], margin: str | None, resume: Path | None, *, wait: bool = True) -> None:
    """Measure what is planned, or what a folder still lacks, and report; exits with 1 where nothing gave a time."""
    reach = share(margin, "--margin") if margin is not None else None
    if resume is not None and given:
        words = ", ".join(f"--{name}" for name in given)
        raise UsageError(f"--resume goes on with what its folder planned; leave out {words} (--margin may be changed)")
    with exits_when_interrupted():
        lane = lane_of_command(wait=wait)
        folder, plan = _begin(Options(**given), reach, lane) if resume is None else _go_on(resume, lane)
    found = calibrate(plan, folder.records(), reach or plan.margin)
    _report(folder, found)
    if not found.measured:
        print(f"error: nothing gave a time: {found.reason or 'no process was started'}", file=sys.stderr)
        sys.exit(FAILED)


def _begin(options: Options, margin: float | None, lane: Lane) -> tuple[RunFolder, Selfcheck]:
    suite, injected = _suite(options), _injected(options)
    # whom the method is asked by measures first: a server takes two seconds to get warm
    with Isolation() as worker:
        scouted = scout(suite, worker, roof=False, lane=lane)
        if refused := list(scouted.refusals().values()):
            raise UsageError(f"--method {options.method}: {refused[0].status.value}: {refused[0].reason}")
        plan = Selfcheck(
            sides=(scouted.cells[0], scouted.cells[-1]),
            verdicts=options.verdicts,
            replicates=options.replicates,
            margin=margin or share(_MARGIN, "--margin"),
            injected=injected,
        )
        folder = RunFolder.create(options.out, describe_run(scouted))
        selfcheck_plan.keep(folder.path, plan)
        _measure(folder, plan, scouted, worker, lane)
    return folder, plan


def _injected(options: Options) -> float:
    return share(options.inject, "--inject") if options.inject else 0.0


def _suite(options: Options) -> Suite:
    """One cell; two where a slow-down is made on purpose. Raises UsageError, UnknownMethodError."""
    registry.find(options.method)
    if (processes := 2 * options.verdicts * options.replicates) > MOST_PROCESSES:
        raise UsageError(
            f"--verdicts {options.verdicts} --replicates {options.replicates}: that is {processes:,} processes; "
            f"at most {MOST_PROCESSES:,} make sense"
        )
    method = Method(name=options.method)
    if injected := _injected(options):
        method = Method(name=_SLOWED, params={"method": (options.method,), "share": (0.0, injected)})
    try:
        return Suite(
            name="selfcheck",
            source="one method under two names",
            device=options.device,
            axes=Axes.model_validate({"N": options.N, "causal": options.causal}),
            methods=(method,),
            budget=Budget(seconds=options.seconds),
            replicates=2 * options.verdicts * options.replicates,
        )
    except ValidationError as error:
        raise refused(error, vars(options)) from None


def _go_on(path: Path, lane: Lane) -> tuple[RunFolder, Selfcheck]:
    """Measure what is missing; a folder that lacks nothing is only reported again, on any machine."""
    folder, plan = RunFolder(path), selfcheck_plan.recall(path)
    if not _lacks(plan, folder.records()):
        return folder, plan
    info = folder.info()
    with Isolation() as worker:
        scouted = scout(info.suite, worker, roof=False, lane=lane)
        if different := info.differences(describe_run(scouted)):
            lines = "\n  ".join(different)
            raise UsageError(f"{path} cannot be continued; what has changed since:\n  {lines}\nstart a new one instead")
        _measure(folder, plan, scouted, worker, lane)
    return folder, plan


def _lacks(plan: Selfcheck, records: Sequence[Record]) -> bool:
    ledger = Ledger.of(records)
    return not all(ledger.finished(plan.cell(number), Pass.TIME, number) for number in range(plan.processes))


def _measure(folder: RunFolder, plan: Selfcheck, scouted: Scouted, first: Isolation, lane: Lane) -> None:
    servers = iter([first])
    with FolderLock(folder.path) as lock:
        records = folder.repair()
        progress = Rounds(plan, records)
        if lock.took_over:
            progress.say(f"took over the lock of {lock.took_over}, which is gone")
        for line in folder.set_aside:
            progress.say(f"a record was set aside and its process is started again: {line}")
        executor = SelfcheckExecutor(
            run_info=folder.info(),
            ledger=Ledger.of(records),
            refusals=scouted.refusals(),
            check_cells=scouted.check_cells(),
            isolation=lambda: next(servers, None) or Isolation(),
            lane=lane,
            plan=plan,
            warmups=warmups_of(plan, records),
        )
        if words := disturbance():
            progress.say(words)
        size = f"{plan.verdicts} verdicts x 2 sides x {plan.replicates} processes"
        progress.say(f"{size} on {scouted.surroundings.device}: {folder.path}")
        _collect(executor, folder, progress, records)


def _collect(executor: SelfcheckExecutor, folder: RunFolder, progress: Rounds, records: list[Record]) -> None:
    first = min(FIRST, executor.plan.replicates)

    def took(record: Record) -> None:
        records.append(record)
        if progress.took(record) == first:
            progress.say(told_apart(looked_at(executor.plan, records, first), executor.plan.margin))

    try:
        with progress:
            collect(executor, folder, took)
    except Interrupted:
        again = f"attnbench selfcheck --resume {shlex.quote(str(folder.path))}"
        progress.say(f"what was measured is kept; go on with: {again}")
        raise


def _report(folder: RunFolder, found: Calibration) -> None:
    # pandas and matplotlib take seconds to import; a selfcheck that is only starting need not wait for them
    from attnbench.report.questions.selfcheck import figure as selfcheck_plot
    from attnbench.report.questions.selfcheck import json as selfcheck_json
    from attnbench.report.questions.selfcheck import table as selfcheck_table

    info = folder.info()
    _write(folder, "selfcheck.json", selfcheck_json.as_json(found, info).encode())
    _write(folder, "selfcheck.md", selfcheck_table.page(found, info).encode())
    # where a slow-down was made on purpose, none is put into the medians
    for form, image in () if found.plan.injected else selfcheck_plot.pictures(found, info).items():
        _write(folder, f"selfcheck.{form}", image)
    unicode = "utf" in (sys.stdout.encoding or "ascii").lower()
    print(selfcheck_table.console(found, info, unicode=unicode))
    print(f"\n{_kept(found, info)}records and figures: {folder.path}")


def _write(folder: RunFolder, name: str, content: bytes) -> None:
    try:
        write_durably(folder.path / name, content)
    except OSError as error:
        raise StoreError(f"cannot write {folder.path / name}: {error.strerror}") from error


def _kept(found: Calibration, info: RunInfo) -> str:
    """Keep the noise floor for the gate, and say so."""
    if found.plan.injected:
        return ""
    if not found.floor:
        return _filled(
            f"not kept as the noise floor of this machine: that takes {FEWEST} verdicts, and a slow-down that they find"
        )
    cell = found.plan.sides[0]
    noise_floor.remember(
        noise_floor.NoiseFloor(
            environment=info.environment_digest,
            device=info.surroundings.device,
            about=f"{cell.label}, {cell.workload.value}, N={cell.problem.N}",
            run=info.id,
            verdicts=found.plan.verdicts,
            smallest=found.floor,
        )
    )
    floors = ", ".join(f"+{percent(effect)} with {replicates} a side" for replicates, effect in found.floor)
    return _filled(f"noise floor of this machine, kept for attnbench gate: {floors}")


def _filled(text: str) -> str:
    return textwrap.fill(text, 80) + "\n"
