"""Merging runs that measured shares of one suite, on whatever machines, into one run."""

from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from attnbench.library.runs import Run, RunLike, other_than_run, read
from attnbench.schema.errors import UsageError
from attnbench.schema.run import RunInfo, joined, new_id
from attnbench.schema.units import counted
from attnbench.session.lanes import Shard
from attnbench.session.reporter import Reporter
from attnbench.store.history import open_history
from attnbench.store.lock import refuse_unended
from attnbench.store.run_folder import RunFolder


def merge(*runs: RunLike, results: str | Path = "results", reporter: Reporter | None = None) -> Run:
    """Copy the records of runs of one suite into a new run; those that are merged stay as they are.

    The URL of a history, as s3://bucket/shards, stands for all its runs. What was measured on unlike devices is told apart in
    the new run. Shards that are missing are said.
    Raises UsageError where one is no run of a suite or is still being written, the suites differ, two runs measured the same
    cell, or none measured any; StoreError.
    """
    with ExitStack() as opened:
        given = [folder for each in runs for folder in _folders(each, opened)]
        # a run of several parts is given as these
        folders = [part for each in given for part in _parts(each)]
        if not folders:
            raise UsageError("name the runs to merge, as attnbench merge results/scaling/*")
        infos = [folder.own() for folder in folders]
        for folder, info in zip(folders, infos, strict=True):
            if why := other_than_run(folder.path, info):
                raise UsageError(f"{folder.path} is not merged: {why}")
            refuse_unended(folder.path)
        if not any(next(folder.own_records(), None) for folder in folders):
            raise UsageError("nothing is merged: none of the runs has a record")
        _refuse_unlike(folders, infos)
        _refuse_doubles(given)
        now = datetime.now(UTC)
        made = joined(infos[0], infos[1:])
        changes = {
            "id": new_id(now),
            "shard": "",
            "command": f"attnbench merge, of {counted(len(infos), 'run')}",
            "started": min(info.started for info in infos),
            "cells": tuple(sorted(made.cells, key=lambda cell: cell.problem.N)),
        }
        folder = RunFolder.create(Path(results), made.model_copy(update=changes))
        for number, each in enumerate(folders, 1):
            folder.adopt(number, each)
    shards = [Shard.read(info.shard) for info in infos if info.shard]
    # a run that went on as a whole lacks no share; shards of unlike numbers were not made to be merged
    if len(shards) == len(infos) and len({shard.of for shard in shards}) == 1 and reporter:
        whole = [Shard(number + 1, shards[0].of) for number in range(shards[0].of)]
        if missing := ", ".join(str(shard) for shard in whole if shard not in shards):
            reporter.say(f"merged without {missing}, which nobody gave")
    return Run(folder)


def _folders(run: RunLike, opened: ExitStack) -> list[RunFolder]:
    """Return the folder of a run, or those of a history at a URL, as long as they are `opened`."""
    if isinstance(run, str) and "://" in run:
        history = open_history(run)
        return [opened.enter_context(history.folder(place)) for place in history.places()]
    return [read(run).folder]


def _parts(folder: RunFolder) -> list[RunFolder]:
    """Return the parts of a run, and the run itself where it has records of its own."""
    parts = folder.parts()
    return [*parts, *([folder] if not parts or next(folder.own_records(), None) else [])]


def _refuse_unlike(folders: list[RunFolder], infos: list[RunInfo]) -> None:
    """Raise UsageError unless all are of one suite and of one version of each method."""
    known = infos[0]
    for folder, info in zip(folders, infos, strict=True):
        # a share knows no method of which it has no cell
        same = info.model_copy(update={"environment": known.environment, "methods": known.methods | info.methods})
        if different := known.differences(same):
            lines = "\n  ".join(different)
            raise UsageError(f"{folders[0].path} and {folder.path} are not parts of one run:\n  {lines}")
        known = same


def _refuse_doubles(given: list[RunFolder]) -> None:
    """Raise UsageError where a cell is in two of the runs; a run that went on as a whole may have it in several parts."""
    seen = dict[str, Path]()
    for folder in given:
        measured = {record.job.cell.key for record in folder.read()} & {cell.key for cell in folder.info().cells}
        if twice := measured & seen.keys():
            other = seen[next(iter(twice))]
            raise UsageError(
                f"{other} and {folder.path} both measured the same {counted(len(twice), 'cell')}; merge only one of them"
            )
        seen |= dict.fromkeys(measured, folder.path)
