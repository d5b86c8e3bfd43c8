"""Measuring a suite: a new run, or one that goes on; all of it or a share, in one lane or several."""

import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Unpack

from attnbench.library.runs import Run, other_than_run
from attnbench.places import ray
from attnbench.places.in_lanes import carry_out_in_lanes
from attnbench.places.station import Station
from attnbench.schema.cell import Cell
from attnbench.schema.errors import ArgumentError, UsageError
from attnbench.schema.outcome import Status
from attnbench.schema.run import RunInfo, joined
from attnbench.schema.units import counted
from attnbench.session.asked import Only, SuiteLike, check_methods, one_of, placing, select, several
from attnbench.session.lanes import Devices, Shard, failed_with, portions, shared_out
from attnbench.session.progress import Progress, block_of, processes
from attnbench.session.scene import How, Measuring, Scene, going_on, refuse_changes
from attnbench.session.scout import CellsOf, Scouted
from attnbench.store.run_folder import RunFolder
from attnbench.suite.expand import expand

_ASK_ABOVE = 1000


@dataclass(frozen=True)
class Cluster:
    """A cluster of Ray."""

    address: str | None = None
    """As Ray takes it: auto, host:port or ray://host:port; None starts one on this machine."""
    resource: str = ""
    """What a lane takes one of: GPU, or what nodes were given; empty for GPU where the suite is for one, else a node."""


def run(  # noqa: PLR0913 - each says one thing about what is measured, or on what
    suite: SuiteLike | None = None,
    *,
    resume: str | Path | None = None,
    retry: str | Sequence[str] = (),
    methods: str | Sequence[str] = (),
    N: int | str | Sequence[int | str] = (),
    workloads: str | Sequence[str] = (),
    causal: bool | None = None,
    devices: Devices = (),
    lanes: int | None = None,
    shard: str = "",
    cells: CellsOf = expand,
    cluster: Cluster | None = None,
    **how: Unpack[Measuring],
) -> Run:
    """Measure a suite: its name, its file, a dict as its file would be; or `resume` a run folder that was interrupted.

    With `retry` a run that is resumed measures again what failed: `failed`, or some statuses (`timeout`, `crashed`).
    `methods` (names, and patterns as `linear.*`), `N` (as `512..8192`), `workloads` and `causal` say what of a suite is
    measured, or without one what is measured at all. Several `devices` (cuda:0,cuda:1, or all) measure at the same time, or so
    many `lanes` that share the cores of a CPU out among them. A `shard` (3/8) is a share of the suite; `merge` makes one run of
    all; with `resume` it is measured as a part of that run, beside which other processes may measure theirs. A function
    `cells` gives those of a new run's suite that are measured, all by default. On a `cluster` of Ray there is a lane for each
    of its GPUs, or for each node.
    Leaves records, tables, plots and a page in a run folder below `results`; an interruption loses nothing that was measured.
    Raises UsageError, ScoutError, StoreError, LaneTakenError.
    """
    only = Only(methods=methods, N=N, workloads=workloads, causal=causal)
    if resume is not None:
        refuse_others(suite, only, how)
    parts, share = portions(devices, lanes), Shard.read(shard) if shard else None
    if parts[0].gpu:
        if (device := how.get("device") or "cuda") != "cuda":
            raise ArgumentError("device", device, "several devices are GPUs; leave it out, or say cuda")
        how["device"] = device
    asked = replace(How.of(how, "run", suite), portions=parts)
    retried = _statuses(retry)
    if retried and resume is None:
        raise UsageError("retry goes with resume: it measures again what failed in a run")
    with ExitStack() as opened:
        stations: Sequence[Station] = ()
        if cluster:
            begun = RunFolder(Path(resume)).own().suite if resume is not None else None
            meant = begun or select(suite, asked.impl, asked.device, asked.replicates, only)[1]
            reached = ray.stations(
                cluster.address, cluster.resource, asked.command, cuda=meant.device.startswith("cuda"), fresh=asked.fresh
            )
            stations = opened.enter_context(reached)
        scene = opened.enter_context(Scene(asked, stations=stations))
        if resume is None:
            scouted, present = _begin(suite, only, share, cells, scene)
            each = scene.lanes(present)
            folder = RunFolder.create(Path(asked.results), each[0])
        else:
            folder, scouted, present = _go_on(suite, Path(resume), share, scene)
        if parts[0].cores:
            scene.say(f"{len(parts)} lanes share caches, memory bandwidth and clocks: their times are those of a busy machine")
        with scene.writing(folder, "its cell is measured again") as records:
            if resume is not None:
                if share is not None:
                    # another process may have begun it meanwhile
                    refuse_other_shares(folder.path, share, scouted.cells)
                known = folder.info() if folder.begun else present
                # a part may have been begun on another node
                each = scene.lanes(going_on(known, present) if folder.part is None else joined(present, [known]))
                if each[0] != known or not folder.begun:
                    folder.rewrite(each[0])
            info, places = each[0], scene.places(each, folder.checkpoints)
            done = [record for record in records if not failed_with(record, retried)]
            progress = Progress(scene.how.reporter, processes(info), block_of(info), done, lanes=len(places))
            scene.begins(f"{counted(len(info.cells), 'cell')} x {counted(info.suite.replicates, 'replicate')}", each, folder)
            where = {
                "lanes": lanes if parts[0].cores else None,
                "devices": devices if isinstance(devices, str) else ",".join(devices),
                "shard": share if folder.part is not None else None,
                "retry": retry if isinstance(retry, str) else ",".join(retry),
                **({"on": "ray", **asdict(cluster)} if cluster else {}),
            }
            words = "".join(f" --{name} {shlex.quote(str(value))}" for name, value in where.items() if value)
            kept = f"what was measured is kept; go on with: attnbench run --resume {{}}{words}{' --fresh' * asked.fresh}"
            shared = shared_out(scouted, each, [place.device for place in places], records, scene.say, retried)
            scene.collect(carry_out_in_lanes(shared, places, progress.starts), places, folder, progress, kept)
            made = Run(folder)
            if folder.part is None and not made.is_large:
                made.report()
    return made


def refuse_others(suite: SuiteLike | None, only: Only, how: Measuring) -> None:
    """Refuse what would change a run that goes on. Raises UsageError.

    Where the suite is named again, its methods, device and replicates are held against those of the run later.
    """
    found = [*only.given, *(name for name in ("impl", "device", "replicates") if not suite and how.get(name))]
    found += ["results"] if str(how.get("results", How.results)) != How.results else []
    if found:
        raise UsageError(f"a run goes on as it was begun; leave out {', '.join(found)}, or start a new one")


def refuse_other_shares(path: Path, shard: Shard, cells: Sequence[Cell]) -> None:
    """Refuse a share of a run of which the whole was begun, or other shares. Raises ArgumentError."""
    folder = RunFolder(path)
    if next(folder.own_records(), None) is not None:
        raise ArgumentError("shard", shard, f"{path} has records of the whole run, and goes on without a shard")
    shares = {part.part: part.own() for part in folder.parts()}
    same = shares.pop(shard.number, None)
    taken = {cell.key for share in shares.values() for cell in share.cells} & {cell.key for cell in cells}
    if taken or (same is not None and same.shard != str(shard)):
        raise ArgumentError("shard", shard, f"{path} was shared out otherwise; go on with its own shares, or without a shard")


def _statuses(retry: str | Sequence[str]) -> set[Status]:
    """Return what is tried again: what a method or a package that is missing rules out stays as it is. Raises ArgumentError."""
    known = {status.value for status in Status} - {Status.UNSUPPORTED, Status.MISSING, Status.INTERRUPTED}
    words = [word.strip() for text in several(retry) for word in text.split(",") if word]
    names = {one_of(["failed", *sorted(known)], each, "retry") for each in words}
    return {Status(name) for name in (known if "failed" in names else names)}


def _begin(asked: SuiteLike | None, only: Only, shard: Shard | None, cells: CellsOf, scene: Scene) -> tuple[Scouted, RunInfo]:
    """Ask everything for a new run, and refuse a suite that cannot be measured."""
    how = scene.how
    loaded, suite = select(asked, how.impl, how.device, how.replicates, only)
    with placing(loaded):
        scouted = scene.scout(suite, shard.expand if shard else cells)
    check_methods(loaded, scouted)
    count = len(scouted.cells)
    if count > _ASK_ABOVE and not how.reporter.agrees(f"The suite has {count:,} cells. Go on?"):
        raise UsageError(f"the suite has {count:,} cells; add --yes to measure them all")
    return scouted, scene.describe(scouted).model_copy(update={"shard": str(shard or "")})


def _go_on(asked: SuiteLike | None, path: Path, shard: Shard | None, scene: Scene) -> tuple[RunFolder, Scouted, RunInfo]:
    """Ask everything anew for a run that goes on, and refuse where it would not be the same run."""
    folder, how = RunFolder(path), scene.how
    info = folder.own() if shard else folder.info()
    if why := other_than_run(path, info):
        raise UsageError(f"{path} does not go on as a run: {why}")
    if shard is not None and info.shard:
        raise ArgumentError("shard", shard, f"{path} is shard {info.shard} of a run already, and goes on without it")
    suite = select(asked, how.impl, how.device, how.replicates)[1] if asked else info.suite
    cells = shard.cells(info.cells) if shard else info.cells
    scouted = scene.scout(suite, lambda _: cells, roof=shard is not None or not info.environment_digest)
    present = scene.describe(scouted).model_copy(update={"id": info.id, "shard": str(shard or info.shard)})
    if shard is not None:
        refuse_other_shares(folder.path, shard, cells)
        folder = RunFolder(path, shard.number)
        info = folder.own() if folder.begun else present
    elif not info.environment_digest:
        # so far it was only handed to others
        info = joined(info, [present])
    if silent := [f"method.{name}: {failed.reason}" for name, failed in scouted.failures.items() if name in info.methods]:
        lines = "\n  ".join(silent)
        raise UsageError(f"{path} cannot be continued; what could be asked then, and cannot now:\n  {lines}")
    # a part that was begun on another node goes on here, where nothing but the node has changed
    refuse_changes(path, info.model_copy(update={"environment": present.environment}) if shard else info, present)
    return folder, scouted, present
