"""The measuring side of `attnbench maxlen`: from words to a suite, from a suite to searches, from searches to a run folder."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from pydantic import ValidationError

from attnbench import registry
from attnbench.cli.amounts import length, memory_share
from attnbench.cli.choose import narrowed, pick
from attnbench.cli.collect import collect, exits_when_interrupted, lane_of_command
from attnbench.cli.errors import UsageError
from attnbench.cli.maxlen import Options, limits_of
from attnbench.cli.progress import Remarks
from attnbench.cli.run import describe_run
from attnbench.cli.select import address, check_methods, is_address, refused, select
from attnbench.cli.signals import Interrupted
from attnbench.executors.lane import Lane
from attnbench.executors.ledger import Ledger
from attnbench.executors.longest import LimitSearch, first_cells
from attnbench.executors.scout import Scouted, scout
from attnbench.report.questions.limits.table import ended, value_text
from attnbench.report.text.names import one_line
from attnbench.schema.cell import Batch, Cell, Workload
from attnbench.schema.errand import Job
from attnbench.schema.run import RunInfo
from attnbench.schema.suite import Axes, Method, Suite
from attnbench.store.lock import FolderLock
from attnbench.store.run_folder import RunFolder
from attnbench.suite.load import Loaded, shipped
from attnbench.worker.isolate import Isolation

_LONGEST_NAME = 64
_UNSEARCHED = (Workload.FIDELITY, Workload.NUMERICS, Workload.TRAIN)
_PLAIN = {
    "name": "lengths",
    "source": "methods that were named on the command line; 8 heads, D = 64, float32",
    "axes": {"N": 512, "causal": (True, False)},
    "workloads": ("forward", "forward_backward"),
}


def measure(options: Options) -> RunFolder:
    """The run folder of the searches; raises UsageError, SuiteError, ScoutError, StoreError.

    Exits with 130 or 143 when interrupted, after saving.
    """
    with exits_when_interrupted(), Isolation(options.fresh) as worker:
        loaded, suite, wanted = _asked(options)
        lane = lane_of_command(wait=options.wait)
        scouted = scout(for_limits(suite, batch=options.batch), worker, roof=False, lane=lane)
        check_methods(loaded, scouted)
        scouted = _searches(scouted, wanted, options)
        info = describe_run(scouted)
        folder = RunFolder.create(options.results, info)
        with FolderLock(folder.path):
            _search(info, scouted, folder, worker, lane)
    return folder


def _asked(options: Options) -> tuple[Loaded | None, Suite, tuple[str, ...]]:
    """The suite, where its file is one, and which of its methods are wanted: none said, all are."""
    plain = {word: word.partition("(")[0] for word in options.what}
    named = tuple(word for word, name in plain.items() if name in registry.catalogue() or is_address(name))
    added = tuple(map(address, options.impls))
    loaded, suite = _suite([word for word in options.what if word not in named], (*named, *added), options)
    wanted = (*named, *options.methods)
    if not wanted:
        return loaded, suite, ()
    return loaded, narrowed(suite, (*wanted, *added), "--method"), (*wanted, *added)


def _suite(words: Sequence[str], methods: Sequence[str], options: Options) -> tuple[Loaded | None, Suite]:
    """The one that is named, or a plain one of the methods that are."""
    if not words:
        each = tuple(Method(name=name.partition("(")[0]) for name in methods)
        try:
            return None, Suite.model_validate({**_PLAIN, "methods": each, "device": options.device or "auto"})
        except ValidationError as error:
            raise refused(error, {"device": options.device}) from None
    if len(words) > 1:
        raise UsageError(f"{', '.join(words)}: at most one suite; methods are named as `attnbench methods` lists them")
    (word,) = words
    meant = get_close_matches(word, registry.catalogue(), n=1)
    if meant and not Path(word).exists() and word not in shipped():
        raise UsageError(f"{word}: neither a suite nor a method; did you mean {meant[0]!r}?")
    return select(word, options.impls, options.device)


def for_limits(suite: Suite, *, batch: bool) -> Suite:
    """With one replicate, a name of its own, and a batch that does not follow from the length."""
    axes = _without_tokens(suite.axes, batch=batch)
    if batch:
        axes = axes.model_copy(update={"B": ("max",)})
    changed = {d: {"axes": _without_tokens(o.axes, batch=batch), "replicates": 1} for d, o in suite.on.items()}
    return suite.model_copy(
        update={
            "name": f"maxlen-{suite.name}"[:_LONGEST_NAME],
            "axes": axes,
            "on": {device: override.model_copy(update=changed[device]) for device, override in suite.on.items()},
            "replicates": 1,
            "memory_replicates": 1,
        }
    )


def _without_tokens(axes: Axes, *, batch: bool) -> Axes:
    """What is written, less the tokens in the batch; of B what is stated as a number."""
    written = {name: getattr(axes, name) for name in axes.model_fields_set - {"tokens", "B"}}
    stated = tuple(B for B in axes.B if B != "max")
    return Axes.model_validate({**written, **({"B": stated} if stated and not batch else {})})


def _searches(scouted: Scouted, wanted: Sequence[str], options: Options) -> Scouted:
    """One cell a search, under the limits that the command line sets; raises UsageError."""
    cells = [cell for cell in scouted.cells if cell.workload not in _UNSEARCHED]
    labels = list(dict.fromkeys(cell.label for cell in cells))
    if wanted:
        kept = {label for word in wanted for label in pick(word, labels, "--method")}
        cells = [cell for cell in cells if cell.label in kept]
    if not cells:
        raise UsageError(
            "the suite has no workload that can be searched: a score has neither time nor memory of its own, and what is "
            "learnt has the length of its task"
        )
    suite = _with_memory(scouted, options.memory)
    if not options.batch:
        cells = first_cells(cells, scouted.refusals())
        suite = suite.model_copy(update={"axes": suite.axes.model_copy(update={"N": _between(cells, options.limit)})})
    return replace(scouted, suite=suite, cells=tuple(cells))


def _between(cells: Sequence[Cell], limit: str) -> tuple[int, ...]:
    """The lengths between which is searched: so they stand in the run; raises UsageError."""
    lengths, most = {cell.problem.N for cell in cells}, length(limit, "--limit")
    if most < max(lengths):
        raise UsageError(
            f"--limit {limit}: a search begins at N = {max(lengths):,}, the shortest length that the suite has for it"
        )
    return tuple(sorted({min(lengths), most}))


def _with_memory(scouted: Scouted, memory: str | None) -> Suite:
    """The suite with the memory that the command line allows."""
    if memory is None:
        return scouted.suite
    if scouted.surroundings.device != "cpu":
        raise UsageError("--memory limits cells on a CPU; on a GPU the limit is what is free")
    share = memory_share(memory, scouted.surroundings.memory_bytes, "--memory")
    return scouted.suite.model_copy(update={"budget": scouted.suite.budget.model_copy(update={"memory": share})})


def _search(info: RunInfo, scouted: Scouted, folder: RunFolder, worker: Isolation, lane: Lane) -> None:
    search = LimitSearch(
        run_info=info,
        ledger=Ledger(),
        refusals=scouted.refusals(),
        check_cells=scouted.check_cells(),
        isolation=lambda: worker,
        on_start=_show,
        lane=lane,
        most=max(info.suite.axes.N),
        on_end=lambda cell: _say(_outcome(info, folder, cell)),
    )
    _say(f"{len(info.cells)} searches on {info.surroundings.device}: {folder.path}")
    try:
        collect(search, folder, Remarks(_say).took)
    except Interrupted:
        _say(f"what was tried is kept; see it with: attnbench maxlen {shlex.quote(str(folder.path))}")
        raise


def _outcome(info: RunInfo, folder: RunFolder, cell: Cell) -> str:
    """One search that is over, in a line."""
    (found,) = limits_of(info.model_copy(update={"cells": (cell,)}), folder)
    mask = "causal" if cell.problem.causal else "non-causal"
    what = f"N = {cell.problem.N:,}, largest B" if cell.batch is Batch.LARGEST else "largest N"
    return f"{cell.label}, {cell.workload}, {mask}, {what}: {value_text(found)}; ended by {ended(found)}"


def _show(job: Job) -> None:
    """What is being tried, on a terminal; the next line takes its place."""
    if sys.stderr.isatty():
        text = one_line(f"{job.phase} {job.cell.label} N={job.cell.problem.N} B={job.B or job.cell.problem.B}")
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def _say(text: str) -> None:
    print(f"\r\x1b[K{one_line(text)}" if sys.stderr.isatty() else one_line(text), file=sys.stderr, flush=True)
