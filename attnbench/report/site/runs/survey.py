"""What runs there are: each run.json is read for who, where and when; what cannot be read is told with the reason."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from attnbench.report.site.runs.kind import Kind, kind_of
from attnbench.report.text.names import one_line
from attnbench.schema.history import Entry, Summary
from attnbench.store.found_runs import find_runs
from attnbench.store.history import RECORDS
from attnbench.store.run_folder import RunFolder, StoreError

UNREADABLE = (StoreError, ValueError, OverflowError)
"""What reading a run may raise: files, dates and numbers that are none."""


@dataclass(frozen=True)
class Found:
    """A run folder, as far as its run.json tells."""

    path: Path
    entry: Entry
    """Without what came of its cells."""
    kind: Kind
    source: str
    """The suite's purpose, in words."""
    interleaved: str
    """The word that both sides of a comparison share."""
    size: int
    """Bytes of its records."""

    @property
    def place(self) -> str:
        """Its folder below the results."""
        return self.entry.place


@dataclass(frozen=True)
class LeftOut:
    """A folder or file that is not on the site, and why."""

    place: str
    why: str


@dataclass(frozen=True)
class Survey:
    """All runs by rising place, each once."""

    found: tuple[Found, ...]
    left_out: tuple[LeftOut, ...]


def survey(results: Path) -> Survey:
    """Every run folder below, at any depth."""
    left_out: list[LeftOut] = []
    found = []
    for path in find_runs(results, lambda error: left_out.append(_refused(error, results))):
        try:
            found.append(_look(path, results))
        except UNREADABLE as error:
            left_out.append(unreadable(path, place_of(path, results), error))
    once, doubles = _once(found)
    return Survey(once, in_order([*left_out, *doubles]))


def in_order(left_out: Iterable[LeftOut]) -> tuple[LeftOut, ...]:
    """By place."""
    return tuple(sorted(left_out, key=lambda each: (each.place, each.why)))


def place_of(path: Path, results: Path) -> str:
    """Below the results, so that a site does not tell where they were."""
    return path.relative_to(results).as_posix()


def unreadable(path: Path, place: str, error: Exception) -> LeftOut:
    """In words that name no folder of this machine."""
    return LeftOut(one_line(place), one_line(str(error).replace(f"{path}/", "").replace(str(path), "it")))


def _look(path: Path, results: Path) -> Found:
    info = RunFolder(path).info()
    records = path / RECORDS
    return Found(
        path=path,
        entry=Entry.of(place_of(path, results), info, Summary(())),
        kind=kind_of(info),
        source=info.suite.source,
        interleaved=info.interleaved,
        size=records.stat().st_size if records.is_file() else 0,
    )


def _refused(error: OSError, results: Path) -> LeftOut:
    """A folder that could not be looked into."""
    return LeftOut(one_line(place_of(Path(error.filename), results)), error.strerror or "cannot be read")


def _once(found: Iterable[Found]) -> tuple[tuple[Found, ...], list[LeftOut]]:
    """Of folders that hold one run, as a reference and what it was copied from, the one with the most records."""
    kept: dict[tuple[str, str, str], Found] = {}
    doubles = []
    for each in sorted(found, key=lambda each: (-each.size, each.place)):
        first = kept.setdefault((each.entry.suite, each.entry.machine, each.entry.run), each)
        if first is not each:
            doubles.append(LeftOut(one_line(each.place), f"the same run as {one_line(first.place)}, which is shown"))
    return tuple(sorted(kept.values(), key=lambda each: each.place)), doubles
