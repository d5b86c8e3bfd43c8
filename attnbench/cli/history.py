"""`attnbench history`: add run folders to a history, and list what it holds."""

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tabulate import tabulate

from attnbench.analyze.points import lacks, points
from attnbench.cli.errors import UsageError
from attnbench.report.text.names import ascii_only, one_line, shorten
from attnbench.schema.history import Entry
from attnbench.store.history import History, HistoryError, open_history, place_of
from attnbench.store.index import Wanted
from attnbench.store.indexed import Found, look_up
from attnbench.store.run_folder import RunFolder

_MACHINE = 48
_MANY, _EVERY = 20, 10


@contextmanager
def opened(address: str) -> Iterator[History]:
    """A history by its path or URL; whatever is wrong with it is a UsageError."""
    try:
        yield open_history(address)
    except HistoryError as error:
        raise UsageError(str(error)) from None


def add(runs: Sequence[Path], to: str) -> None:
    """Copy runs into a history and say where; all are looked at before the first is copied. Raises UsageError, StoreError."""
    with opened(to) as history:
        places: dict[str, Path] = {}
        for run in runs:
            place = _checked(run, history, to)
            if place in places:
                raise UsageError(f"{run} and {places[place]} are the same run, {place}")
            places[place] = run
        for place, run in places.items():
            history.put(run, place)
            print(place)


def _checked(run: Path, history: History, to: str) -> str:
    """Where a run will be; raises UsageError where it is not whole or already there."""
    folder = RunFolder(run)
    info = folder.info()
    if lacking := lacks(info, folder.read()):
        on = f"attnbench run --resume {shlex.quote(str(run))}"
        raise UsageError(f"{run} is not whole: {'; '.join(lacking)}; measure the rest with: {on}")
    place = place_of(info)
    if history.holds(place):
        raise UsageError(f"{run} is in {to} already, as {place}; what is there is never overwritten")
    return place


def show(address: str) -> None:
    """A row a run, the oldest first; a run that cannot be read says why."""
    found = look(address, lambda *_: False)
    text = tabulate(map(_row, found.entries), _HEADERS, tablefmt="simple", disable_numparse=True)
    print(text if "utf" in (sys.stdout.encoding or "").lower() else ascii_only(text))


_HEADERS = ("suite", "run", "started (UTC)", "machine", "commit", "cells")


def _row(entry: Entry) -> list[str]:
    if entry.problem:
        return [one_line(entry.place), "", "", "", "", f"cannot be read: {one_line(entry.problem)}"]
    started = entry.started[:16].replace("T", " ")
    counts = {"ok": entry.ok, "failed": entry.failed, "not run": entry.unfinished}
    words = [f"{count} {name}" for name, count in counts.items() if count]
    cells = ", ".join([*words, *(["an older commit again"] if entry.base else [])])
    return [entry.suite, one_line(entry.run), started, shorten(entry.machine, _MACHINE), one_line(entry.short_commit), cells]


def look(address: str, wanted: Wanted) -> Found:
    """What a history holds; new runs are read, and on a terminal it is said how far. Raises UsageError, StoreError."""
    with opened(address) as history:
        found = look_up(history, points, wanted, _say)
    if not found.entries:
        raise UsageError(f"{address} holds no run; a history is a folder of <suite>/<run id>/ folders, as results/ is")
    return found


def _say(done: int, of: int) -> None:
    """On stderr, and only where it may take a while."""
    if of < _MANY:
        return
    if sys.stderr.isatty() and (done % _EVERY == 0 or done == of):
        print(f"\rread {done:,} of {of:,} new runs", end="\n" if done == of else "", file=sys.stderr, flush=True)
    elif done == 0:
        print(f"reading {of:,} new runs", file=sys.stderr)
