"""The largest length, or the largest batch, that fits: from words to searches, and from searches to a run folder."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from attnbench import registry
from attnbench.analyze.limits import Limit, limits
from attnbench.analyze.sections import conditions_in_words, varied
from attnbench.library.answers import Answer, title
from attnbench.library.runs import Run, RunLike
from attnbench.places.place import carry_out
from attnbench.report.questions.limits import ended, limits_csv, limits_tables, value_text
from attnbench.report.site.runs import Kind, kind_of
from attnbench.schedule.cells import MOST_ROWS
from attnbench.schedule.ledger import Ledger
from attnbench.schedule.longest import first_cells, searches
from attnbench.schema.cell import Batch, Cell, Workload, label
from attnbench.schema.errors import ArgumentError, UsageError, did_you_mean
from attnbench.schema.run import RunInfo
from attnbench.schema.suite import Axes, Method, Suite
from attnbench.schema.units import counted
from attnbench.session.asked import (
    Only,
    SuiteLike,
    addresses,
    check_methods,
    is_method,
    length,
    memory_share,
    narrowed,
    pick,
    placing,
    select,
    several,
    validated,
)
from attnbench.session.progress import Progress, processes
from attnbench.session.scene import How, Measuring, Scene, only_read
from attnbench.store.run_folder import RunFolder
from attnbench.suite.load import Loaded, shipped

_LONGEST_NAME, _LIMIT = 64, "2^22"
_UNSEARCHED = (Workload.FIDELITY, Workload.NUMERICS, Workload.TRAIN, Workload.MODEL_QUALITY)
_PLAIN = {
    "name": "lengths",
    "source": "methods that were named on the command line; 8 heads, D = 64, float32",
    "axes": {"N": 512, "causal": (True, False)},
    "workloads": ("forward", "forward_backward"),
}


def maxlen(
    *what: RunLike | SuiteLike,
    method: str | Sequence[str] = (),
    memory: float | str | None = None,
    limit: int | str = _LIMIT,
    batch: bool = False,
    **how: Unpack[Measuring],
) -> Answer:
    """Find the longest sequence, or the largest batch, that fits: of a suite or of methods, or read from an earlier search.

    Raises UsageError, ScoutError, StoreError.
    """
    first = what[0] if len(what) == 1 else None
    folder = first.folder if isinstance(first, Run) else None
    if isinstance(first, str | Path) and Path(first).is_dir() and str(first) not in shipped():
        folder = RunFolder(Path(first))
    if folder is None:
        with Scene(How.of(how, "maxlen", *what, without=("replicates",))) as scene:
            loaded, suite, wanted = _asked(what, several(method), scene.how)  # type: ignore[arg-type]
            folder = _searched(loaded, for_limits(suite, batch=batch), wanted, memory, limit, scene)
    else:
        asked = {"method": bool(method), "memory": memory is not None, "limit": limit != _LIMIT, "batch": batch}
        asked |= {name: bool(how.get(name)) for name in ("impl", "device")}
        if given := ", ".join(f"--{name}" for name, is_given in asked.items() if is_given):
            raise UsageError(f"{folder.path} is a folder, and an earlier search is read as it is; leave out {given}")
        only_read(how)
        if kind_of(folder.info()) is not Kind.LIMITS:
            raise UsageError(f"{folder.path} holds no search for lengths; to begin one: attnbench maxlen SUITE")
    info = folder.info()
    found = limits_of(info, folder)
    return Answer(title(info), limits_tables(info, found), own_csv=lambda: limits_csv(info, found))


def limits_of(run: RunInfo, folder: RunFolder) -> list[Limit]:
    """Read what the records of a search say."""
    batches = any(cell.batch is Batch.LARGEST for cell in run.cells)
    return limits(run.cells, folder.read(), MOST_ROWS if batches else max(run.suite.axes.N))


def _asked(what: Sequence[SuiteLike], method: Sequence[str], how: How) -> tuple[Loaded | None, Suite, tuple[str, ...]]:
    """Return the suite, where its file is one, and which of its methods are wanted: none said, all are."""
    named = tuple(each for each in what if isinstance(each, str) and is_method(each.partition("(")[0]))
    others = [each for each in what if each not in named]
    added = addresses(how.impl)
    if len(others) > 1:
        words = ", ".join(map(str, others))
        raise UsageError(f"{words}: at most one suite; methods are named as `attnbench methods` lists them")
    loaded = None
    if others:
        word = others[0]
        meant = did_you_mean(word, registry.catalogue()) if isinstance(word, str) else ""
        if meant and not Path(str(word)).exists() and word not in shipped():
            raise UsageError(f"{word}: neither a suite nor a method; {meant.strip()}")
        loaded, suite = select(word, how.impl, how.device)
    else:
        own = Only(methods=named).meant() if named else []
        methods = (*own, *(Method(name=name) for name in added))
        suite = validated({**_PLAIN, "methods": methods, "device": how.device or "auto"}, {"device": how.device})
        named = tuple(label(each.name, {name: value for name, (value,) in each.params.items()}) for each in own)
    wanted = (*named, *method, *added) if named or method else ()
    return loaded, narrowed(suite, wanted, "method") if wanted else suite, wanted


def for_limits(suite: Suite, *, batch: bool) -> Suite:
    """Make a suite of one replicate, a name of its own, and a batch that does not follow from the length."""

    def axes_of(written: Axes) -> Axes:
        """Return what is written, less the tokens in the batch; of B what is stated as a number."""
        stated = tuple(B for B in written.B if B != "max")
        known = {name: getattr(written, name) for name in written.model_fields_set - {"tokens", "B"}}
        return Axes.model_validate({**known, **({"B": stated} if stated and not batch else {})})

    axes = axes_of(suite.axes)
    changed = {
        device: override.model_copy(update={"axes": axes_of(override.axes), "replicates": 1})
        for device, override in suite.on.items()
    }
    return suite.model_copy(
        update={
            "name": f"maxlen-{suite.name}"[:_LONGEST_NAME],
            "axes": axes.model_copy(update={"B": ("max",)}) if batch else axes,
            "on": changed,
            "replicates": 1,
            "memory_replicates": 1,
        }
    )


def _searched(
    loaded: Loaded | None, asked: Suite, wanted: Sequence[str], memory: float | str | None, limit: int | str, scene: Scene
) -> RunFolder:
    """Search for each cell of a suite whose method is wanted, in a run folder."""
    with placing(loaded):
        scouted = scene.scout(asked, roof=False)
    check_methods(loaded, scouted)
    cells = [cell for cell in scouted.cells if cell.workload not in _UNSEARCHED]
    if wanted:
        labels = list(dict.fromkeys(cell.label for cell in cells))
        kept = {label for word in wanted for label in pick(word, labels, "method")}
        cells = [cell for cell in cells if cell.label in kept]
    if not cells:
        raise UsageError(
            "the suite has no workload that can be searched: a score has neither time nor memory of its own, and what is "
            "learnt has the length of its task"
        )
    suite = scouted.suite
    if memory is not None:
        if scouted.surroundings.device != "cpu":
            raise ArgumentError("memory", memory, "this limits cells on a CPU; on a GPU the limit is what is free")
        share = memory_share(memory, scouted.surroundings.memory_bytes, "memory")
        suite = suite.model_copy(update={"budget": suite.budget.model_copy(update={"memory": share})})
    if not any(cell.batch is Batch.LARGEST for cell in cells):
        cells = first_cells(cells, scouted.refusals())
        lengths, most = {cell.problem.N for cell in cells}, length(limit, "limit")
        if most < max(lengths):
            begins = f"a search begins at N = {max(lengths):,}, the shortest length that the suite has for it"
            raise ArgumentError("limit", limit, begins)
        # the lengths between which is searched, as run.json tells them
        between = tuple(sorted({min(lengths), most}))
        suite = suite.model_copy(update={"axes": suite.axes.model_copy(update={"N": between})})
    scouted = replace(scouted, suite=suite, cells=tuple(cells))
    folder = scene.create(scouted)

    def words(cell: Cell) -> dict[str, str]:
        """Say by name what tells a search from others, beside the length or the batch that is sought."""
        size = {"B": "" if cell.batch is Batch.LARGEST else f"B={cell.problem.B}", "dtype": cell.problem.dtype.value}
        return {"workload": cell.workload.words, "mask": cell.problem.mask, **size, **conditions_in_words(cell)}

    varying = {"workload", "mask", *varied(map(words, cells))}
    with scene.writing(folder, "is not tried again"):
        info = folder.info()
        progress = Progress(scene.how.reporter, processes(info))

        def ends(cell: Cell) -> None:
            progress.cross_off(cell.key)
            (found,) = limits_of(info.model_copy(update={"cells": (cell,)}), folder)
            sought = f"N = {cell.problem.N:,}, largest B" if cell.batch is Batch.LARGEST else "largest N"
            about = ", ".join(text for name, text in words(cell).items() if name in varying and text)
            scene.say(f"{cell.label}, {about}, {sought}: {value_text(found)}; ended by {ended(found)}")

        scene.begins(f"{counted(len(info.cells), 'cell')} to search", [info], folder)
        search = searches(scouted.jobs(info, Ledger()), max(info.suite.axes.N), ends)
        again, place = "what was tried is kept; see it with: attnbench maxlen {}", scene.place(info)
        scene.collect(carry_out(search, place, begins=progress.starts), [place], folder, progress, again)
    return folder
