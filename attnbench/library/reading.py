"""Reading stored runs: a page of several, exports, sites, what others printed, inputs, histories and their trends."""

import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from attnbench.analyze.points import UNFINISHED, lacks, points
from attnbench.analyze.quantities import TIME, quantities
from attnbench.library.maxlen import limits_of
from attnbench.library.runs import Run, RunLike, other_than_run, read
from attnbench.report.exports.exchange import Export, ExportError, Place, Source, moment
from attnbench.report.exports.formats import FORMATS, Format
from attnbench.report.exports.parquet import RECORDS
from attnbench.report.questions.published.page import Shown, published_page
from attnbench.report.site.runs import Kind, kind_of
from attnbench.report.text.models import layers_of
from attnbench.report.text.names import one_line
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errors import ArgumentError, UsageError
from attnbench.schema.history import Entry
from attnbench.schema.run import RunInfo
from attnbench.schema.suite import Suite
from attnbench.session.asked import one_of, pick_one, share
from attnbench.session.reporter import Reporter
from attnbench.store.files import open_to_read
from attnbench.store.history import open_history, place_of
from attnbench.store.index import Found, Wanted, look_up
from attnbench.store.run_folder import RunFolder, StoreError, checkpoint_of, find_runs
from attnbench.suite.expand import expand
from attnbench.suite.load import load, shipped

if TYPE_CHECKING:
    from attnbench.analyze.trend import Trends
    from attnbench.report.site.build import Built

_MANY = 10
_LENGTH = 512
"""The tokens that a model of transformers reads where nobody says how many."""


def page(*runs: RunLike) -> str:
    """Show several runs side by side on one page: HTML of one file that needs no network. Raises UsageError."""
    from attnbench.report.page import page as made

    return made([run.findings for run in _each_once(runs)])


def _each_once(runs: Sequence[RunLike]) -> list[Run]:
    """Read runs. Raises UsageError where one of them is given twice."""
    known: dict[str, Run] = {}
    for run in map(read, runs):
        if (other := known.setdefault(run.info.id, run)) is not run:
            raise UsageError(f"{other.path} and {run.path} are one run ({run.info.id})")
    return list(known.values())


def export(*runs: RunLike, to: str, out: str | Path | None = None) -> Export:
    """Return runs in the format of another tool: files by name, and in words what has no place there. Writes nothing.

    `out` is where the files will go: some formats go on with what is there. Raises ArgumentError, UsageError.
    """
    form = format_of(to)
    if len(runs) > 1 and not form.many:
        several = ", ".join(name for name, each in FORMATS.items() if each.many)
        raise ArgumentError("to", to, f"it holds one run, and {len(runs)} are named; several can be in: {several}")
    found = _each_once(runs)
    first = found[0].path
    place = Path(out or first / form.file)
    if form.file == RECORDS and found[0].folder.parts() and place.resolve() == (first / RECORDS).resolve():
        raise ArgumentError(
            "out", place, "the records of this run lie there in parts, and would count twice; name another file"
        )
    sources = [Source(run.findings, list(run.records()) if form.raw else ()) for run in found]
    try:
        made = form.make(sources)
        return form.settle(made, _place(place, made)) if form.settle else made
    except ExportError as error:
        raise ArgumentError("to", to, str(error)) from None


def format_of(to: str) -> Format:
    """Return what is to be known of a format before it is written. Raises ArgumentError."""
    return FORMATS[one_of(FORMATS, to, "to")]


def _place(out: Path, made: Export) -> Place:
    """Return what is there already of the files to be written, and the way from there to the repository around it."""
    known = {}
    for name in made.files:
        try:
            with open_to_read(out / name) as content:
                known[name] = content.read()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise ArgumentError("out", out / name, str(error.strerror)) from None
    start = out.resolve()
    around = (start, *start.parents, Path.cwd(), *Path.cwd().parents)
    root = next((folder for folder in around if (folder / ".git").exists()), None)
    return Place(known, Path(os.path.relpath(root, start)).as_posix() if root else None)


def site(results: str | Path, out: str | Path, *, records: bool = False, reporter: Reporter | None = None) -> "Built":
    """Make a folder of pages from all runs below a folder, for any static host; `out` is replaced as a whole once made."""
    from attnbench.report.site.build import build

    told = reporter or Reporter()
    built = build(Path(results), Path(out), limits_of, records=records, say=_counting(told, "runs"))
    told.stop()
    for each in built.left_out:
        told.say(f"left out: {each.place}: {each.why}")
    return built


def _counting(told: Reporter, what: str) -> Callable[[int, int], None]:
    """Tell how many were read, where it may take a while."""

    def say(done: int, of: int) -> None:
        if of >= _MANY:
            told.step(f"reading {what}", done, of)
            if not done:
                told.block(f"reading {of:,} {what}")

    return say


def published(*runs: RunLike, reporter: Reporter | None = None) -> str:
    """Write a page of Markdown with the figures that others printed, and what a run of each suite measured beside them.

    Of several runs of a suite the newest counts that has all cells of the suite as it ships; where none has, that with the most
    cells. Runs may also be folders of runs. The reporter is told what could not be read. Raises UsageError, StoreError.
    """
    suites = {suite.name: suite for file in shipped().values() if (suite := load(file).suite).published}
    found: dict[str, list[Run]] = {name: [] for name in suites}
    for each in runs:
        for run in runs_below(each, reporter or Reporter(), lambda info: info.suite.name in found):
            found.get(run.info.suite.name, []).append(run)
    chosen = {name: sorted(of, key=partial(_rank, suites[name]))[-1] for name, of in found.items() if of}
    return published_page([Shown(suite, chosen[name].findings if name in chosen else None) for name, suite in suites.items()])


def _rank(suite: Suite, run: Run) -> tuple[bool, int, str, str]:
    """Rank a run as one to judge by: it has all cells of the suite as it ships; else many cells; then it is new.

    A cell that was planned and not run is none: a run that was interrupted does not replace one that is whole.
    """
    own = suite.resolved(run.info.suite.device)
    ran = {cell.cell.key for cell in run.findings.summaries if cell.status not in UNFINISHED}
    is_whole = run.info.suite.digest == own.digest and ran.issuperset(cell.key for cell in expand(own))
    return is_whole, 0 if is_whole else len(ran), run.info.started, run.info.id


def runs_below(where: RunLike, told: Reporter, wanted: Callable[[RunInfo], bool]) -> Iterator[Run]:
    """Find a run, or every run of a suite that is wanted at or below a folder; what cannot be read is said.

    Raises UsageError where nothing can be read.
    """
    if isinstance(where, Run):
        yield where
        return

    def left_out(path: object, why: object) -> None:
        told.say(one_line(f"left out: {path}: {why}"))

    root = Path(where)
    if not root.is_dir():
        raise UsageError(f"{root}: no such folder; name run folders, or a folder of them, as results")
    readable = False
    for path in find_runs(root, lambda error: left_out(error.filename, error.strerror or "cannot be read")):
        run = Run(RunFolder(path))
        try:
            is_wanted = kind_of(run.info) is Kind.RUN and wanted(run.info)
            if is_wanted:
                _ = run.findings
        except StoreError as error:
            left_out(path, error)
            continue
        readable = True
        if is_wanted:
            yield run
    if not readable:
        raise UsageError(f"{root} holds no run that can be read; name run folders, or a folder of them, as results")


def record(  # noqa: PLR0913 - one parameter an option
    run: RunLike,
    *,
    out: str | Path,
    method: str | None = None,
    task: str | None = None,
    N: int | None = None,
    replicate: int = 0,
    sequences: int = 8,
    text: str = "",
) -> Mapping[str, tuple[int, ...]]:
    """Write queries, keys and values of a trained model, as inputs of other cells; gives their shapes. Raises UsageError.

    The model is that of a method of a run, or one of transformers, in whose folder there is a config.json: it reads a text.
    """
    if (file := Path(out)).suffix != ".safetensors":
        raise ArgumentError("out", out, "the name must end in .safetensors")
    if isinstance(run, str | Path) and (Path(run) / "config.json").is_file():
        of_a_run = {"method": method, "task": task, "replicate": replicate}
        return _from_transformers(Path(run), file, text, _LENGTH if N is None else N, sequences, of_a_run)
    folder = read(run).folder
    if text:
        raise ArgumentError("text", text, "a model of transformers reads it; one of a run reads its own task")
    if method is None:
        raise ArgumentError("method", method, "name the method whose model is meant, as tables show it")
    cells = [cell for cell in folder.info().cells if cell.workload is Workload.TRAIN]
    trained = [(cell, cell.training) for cell in cells if cell.training is not None]
    if not trained:
        raise UsageError(f"{folder.path}: nothing was trained in this run")
    label = pick_one(method, {cell.label: None for cell in cells}, "method")
    own = [(f"{t.task} with N={c.problem.N} and {layers_of(t)}", c, t) for c, t in trained if c.label == label]
    meant = [(words, c) for words, c, t in own if task in {None, t.task.value} and N in {None, c.problem.N}]
    if not meant:
        there = "; ".join(sorted({words for words, *_ in own}))
        raise UsageError(f"{folder.path}: no such training of {one_line(label)}; there are: {there}")
    if len(meant) > 1:
        several = "; ".join(words for words, _ in meant)
        raise UsageError(f"{folder.path}: several trainings of {one_line(label)}; choose one by --task and --N: {several}")
    checkpoint = checkpoint_of(folder.checkpoints, meant[0][1], replicate)
    if not checkpoint.is_file():
        raise UsageError(f"{checkpoint} is not there: replicate {replicate} was not trained, or its weights are elsewhere")
    # torch takes seconds to import; what was wrong so far is said before
    from attnbench.training.recorder import record_file

    try:
        return record_file(checkpoint, file, sequences)
    except OSError as error:
        raise ArgumentError("out", out, str(error.strerror)) from None


def _from_transformers(
    folder: Path, file: Path, text: str, N: int, sequences: int, of_a_run: Mapping[str, object]
) -> Mapping[str, tuple[int, ...]]:
    """Record a model of transformers, which takes none of the options that name a training of a run. Raises UsageError."""
    if name := next(filter(of_a_run.get, of_a_run), ""):
        why = "it says which training of a run is meant; a folder of transformers is one model"
        raise ArgumentError(name, of_a_run[name], why)
    if N < 1:
        raise ArgumentError("N", N, "must be at least 1")
    from safetensors import SafetensorError

    from attnbench.hf.recording import record_folder

    try:
        return record_folder(folder, file, text, N, sequences)
    except (OSError, ValueError, SafetensorError) as error:
        raise UsageError(f"{folder}: {error}") from None


def add_to_history(*runs: RunLike, to: str | Path) -> list[str]:
    """Copy whole runs into a history, a folder or a URL; their places there.

    All are looked at before the first is copied, and nothing there is ever overwritten. Raises UsageError, StoreError.
    """
    history = open_history(to)
    places: dict[str, Path] = {}
    for run, folder, info in ((each.path, each.folder, each.info) for each in map(read, runs)):
        if lacking := lacks(info, folder.read()):
            on = other_than_run(run, info) or f"measure the rest with: attnbench run --resume {shlex.quote(str(run))}"
            raise UsageError(f"{run} is not whole: {'; '.join(lacking)}; {on}")
        place = place_of(info)
        if history.holds(place):
            raise UsageError(f"{run} is in {to} already, as {place}; what is there is never overwritten")
        if place in places:
            raise UsageError(f"{run} and {places[place]} are the same run, {place}")
        places[place] = run
    for place, run in places.items():
        history.put(run, place)
    return list(places)


def history(address: str | Path, *, reporter: Reporter | None = None) -> list[Entry]:
    """List the runs of a history, the oldest first; one that cannot be read says why. Raises UsageError, StoreError."""
    return _look(address, lambda *_: False, TIME, reporter).entries


def _look(address: str | Path, wanted: Wanted, quantity: str, reporter: Reporter | None) -> Found:
    told = reporter or Reporter()
    found = look_up(open_history(address), points, wanted, quantity, _counting(told, "new runs"))
    told.stop()
    if not found.entries:
        raise UsageError(f"{address} holds no run; a history is a folder of <suite>/<run id>/ folders, as results/ is")
    return found


def trend(
    address: str | Path,
    *,
    suite: str | None = None,
    method: str | None = None,
    metric: str = "time",
    margin: float | str = "5%",
    since: str | None = None,
    reporter: Reporter | None = None,
) -> "Trends":
    """Find when cells got slower, faster, were lost or came back in a history, and what else changed then.

    `method` may be a pattern, as `linear.*`. Raises UsageError, StoreError.
    """
    # the statistics of change points take a second to import
    from attnbench.analyze import trend as analysis

    reach, begin = share(margin, "margin"), ""
    if since is not None:
        if (date := moment(since)) is None:
            raise ArgumentError("since", since, "write a date as 2026-01-31, or a time as 2026-01-31T12:00")
        # as runs say when they were started
        begin = date.isoformat(timespec="seconds")

    def wanted(of: str, cell: Cell) -> bool:
        named = method is None or any(fnmatchcase(name, method) for name in (cell.method, cell.label))
        return suite in {None, of} and named

    found = _look(address, wanted, metric, reporter)
    # a figure, suite or method that is not there is a slip; a history without points is not
    if metric not in quantities(()):
        one_of(found.quantities, metric, "metric")
    suites = sorted({entry.suite for entry in found.entries if not entry.problem})
    if suite is not None:
        one_of(suites, suite, "suite")
    if method is not None and not found.tracks:
        one_of(sorted({m for entry in found.entries if suite in {None, entry.suite} for m in entry.methods}), method, "method")
    return analysis.look(found.entries, found.tracks, analysis.quantity_called(metric), reach, begin)
