"""One method under two names, through all that a gate does, to see what its verdicts are worth on this machine."""

from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from attnbench import registry
from attnbench.analyze.compare import FIRST
from attnbench.analyze.selfcheck import FEWEST, Calibration, calibrate, looked_at
from attnbench.library.compare import told_apart
from attnbench.places.place import carry_out
from attnbench.report.text.numbers import percent
from attnbench.schedule.ledger import Ledger
from attnbench.schedule.verdicts import in_turns, warmups_of
from attnbench.schema.errand import Job, Pass
from attnbench.schema.errors import ArgumentError, UsageError
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.schema.selfcheck import Selfcheck as Plan
from attnbench.schema.suite import MOST_PROCESSES
from attnbench.session.asked import share, validated
from attnbench.session.progress import Progress
from attnbench.session.scene import How, Measuring, Scene, going_on, refuse_changes
from attnbench.session.scout import Scouted
from attnbench.store.cache import NoiseFloor, keep_noise_floor
from attnbench.store.run_folder import RunFolder

_SLOWED = "attnbench.workloads.slowed:Slowed"


@dataclass(frozen=True)
class Selfcheck:
    """The verdicts of this machine, and what they are worth."""

    folder: RunFolder
    found: Calibration
    kept: str
    """What was kept for `gate`, in words."""

    def __str__(self) -> str:
        from attnbench.report.questions.selfcheck import table

        return table.console(self.found, self.folder.info())


def selfcheck(  # noqa: PLR0913 - one parameter an option
    method: str | None = None,
    *,
    N: int | None = None,
    causal: bool | None = None,
    verdicts: int | None = None,
    seconds: float | None = None,
    margin: float | str | None = None,
    inject: float | str | None = None,
    resume: str | Path | None = None,
    **how: Unpack[Measuring],
) -> Selfcheck:
    """Measure one method under two names: false alarms, and the smallest slow-down found on this machine. Half an hour.

    `resume` goes on with a folder that was interrupted, and only reports one that is whole, on any machine.
    Raises UsageError, ScoutError, StoreError, LaneTakenError.
    """
    reach, asked = share(margin, "margin") if margin is not None else None, How.of(how, "selfcheck", without=("impl",))
    if resume is None:
        injected = share(inject, "inject") if inject is not None else 0.0
        name, verdicts = method or "softmax.sdpa", 200 if verdicts is None else verdicts
        replicates = 10 if asked.replicates is None else asked.replicates
        registry.find(name)
        for argument, value, least in (("verdicts", verdicts, 1), ("replicates", replicates, 2)):
            if value < least:
                raise ArgumentError(argument, value, f"must be at least {least}")
        if (processes := 2 * verdicts * replicates) > MOST_PROCESSES:
            many = f"with {replicates} replicates a side that is {processes:,} processes"
            raise ArgumentError("verdicts", verdicts, f"{many}; at most {MOST_PROCESSES:,} make sense")
        slowed = {"name": _SLOWED, "params": {"method": (name,), "share": (0.0, injected)}}
        axes = {"N": 512 if N is None else N, "causal": bool(causal)}
        budget = {"seconds": 0.2 if seconds is None else seconds}
        data = {
            "name": "selfcheck",
            "source": "one method under two names",
            "device": asked.device or "auto",
            "axes": axes,
            "methods": (slowed if injected else {"name": name},),
            "budget": budget,
            "replicates": processes,
        }
        suite = validated(data, {"device": asked.device, **axes, **budget})
        with Scene(asked) as scene:
            scouted = scene.scout(suite, roof=False)
            if refused := list(scouted.refusals().values()):
                raise ArgumentError("method", name, f"{refused[0].status.value}: {refused[0].reason}")
            sides = scouted.cells[0], scouted.cells[-1]
            plan = Plan(sides=sides, verdicts=verdicts, replicates=replicates, margin=reach or 0.05, injected=injected)
            folder = scene.create(scouted)
            folder.keep_plan(plan)
            _measure(folder, folder.info(), plan, scouted, scene)
    else:
        planned: dict[str, object] = {"method": method, "N": N, "causal": causal, "verdicts": verdicts, "seconds": seconds}
        planned |= {"inject": inject, "replicates": asked.replicates, "device": asked.device, "out": how.get("results")}
        if given := ", ".join(f"--{name}" for name, value in planned.items() if value is not None):
            raise UsageError(f"--resume goes on with what its folder planned; leave out {given} (--margin may be changed)")
        folder, plan = _go_on(Path(resume), asked)
    found = calibrate(plan, folder.records(), reach or plan.margin)
    return Selfcheck(folder, found, _leave(folder, found))


def _go_on(path: Path, how: How) -> tuple[RunFolder, Plan]:
    """Measure what is missing; a folder that lacks nothing is taken as it is, on any machine."""
    folder = RunFolder(path)
    plan = folder.plan()
    ledger = Ledger.of(folder.records())
    if all(ledger.finished(plan.cell(number), Pass.TIME, number) for number in range(plan.processes)):
        return folder, plan
    info = folder.info()
    with Scene(how) as scene:
        scouted = scene.scout(info.suite, roof=False)
        present = scene.describe(scouted)
        refuse_changes(path, info, present)
        _measure(folder, going_on(info, present), plan, scouted, scene)
    return folder, plan


def _measure(folder: RunFolder, info: RunInfo, plan: Plan, scouted: Scouted, scene: Scene) -> None:
    """Measure what the folder lacks, and say once what can be told apart by now."""

    def block(job: Job) -> str:
        return f"round {plan.place(job.replicate).replicate + 1}/{plan.replicates}" if job.phase is Pass.TIME else ""

    with scene.writing(folder, "its process is started again") as records:
        left = {(plan.cell(number).key, number) for number in range(plan.processes)}
        progress = Progress(scene.how.reporter, left, block, records, given_up=False)
        first = min(FIRST, plan.replicates)
        schedule = in_turns(scouted.jobs(info, Ledger.of(records)), plan, warmups_of(plan, records))
        scene.begins(f"{plan.verdicts} verdicts x 2 sides x {plan.replicates} processes", [info], folder)

        def rounds_over() -> int:
            return min((plan.place(number).replicate for _, number in progress.left), default=plan.replicates)

        told = rounds_over() >= first

        def took(record: Record) -> None:
            nonlocal told
            records.append(record)
            if not told and rounds_over() >= first:
                told = True
                scene.say(told_apart(looked_at(plan, records, first), plan.margin))

        kept = "what was measured is kept; go on with: attnbench selfcheck --resume {}"
        place = scene.place(info)
        scene.collect(carry_out(schedule, place, begins=progress.starts), [place], folder, progress, kept, took)


def _leave(folder: RunFolder, found: Calibration) -> str:
    """Write what was found, and keep the noise floor for the gate; what is kept, in words. Raises StoreError."""
    # pandas and matplotlib take seconds to import; a selfcheck that is only starting need not wait for them
    from attnbench.report.questions.selfcheck import figure, table

    info = folder.info()
    files: dict[str, str | bytes] = {"selfcheck.json": table.as_json(found, info), "selfcheck.md": table.page(found, info)}
    if not found.plan.injected:
        # where a slow-down was made on purpose, none is put into the medians
        files |= {f"selfcheck.{form}": image for form, image in figure.pictures(found, info).items()}
    for name, content in files.items():
        folder.keep(name, content)
    if found.plan.injected:
        return ""
    if not found.floor:
        return f"not kept as the noise floor of this machine: that takes {FEWEST} verdicts, and a slow-down that they find"
    cell = found.plan.sides[0]
    keep_noise_floor(
        NoiseFloor(
            environment=info.environment_digest,
            device=info.surroundings.device,
            about=f"{cell.label}, {cell.workload.words}, N={cell.problem.N}",
            run=info.id,
            verdicts=found.plan.verdicts,
            smallest=found.floor,
        )
    )
    floors = ", ".join(f"+{percent(effect)} with {replicates} a side" for replicates, effect in found.floor)
    return f"noise floor of this machine, kept for attnbench gate: {floors}"
