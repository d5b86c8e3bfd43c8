"""The runs of a site: each run.json is read for who, where, when and what for; what cannot be read is told with the reason."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from attnbench.analyze.sections import grouped
from attnbench.report.text.names import one_line, shorten, without_noise
from attnbench.schema.history import Entry, Summary
from attnbench.schema.run import RunInfo
from attnbench.store.run_folder import RunFolder, StoreError, find_runs

UNREADABLE = (StoreError, ValueError, OverflowError)
"""What reading a run may raise: files, dates and numbers that are none."""
_MACHINE = 64


class Kind(StrEnum):
    """The content of a run folder: a suite that was run, or what another command measured; as the index lists them."""

    RUN = "run"
    COMPARISON = "comparison"
    CROSSOVER = "crossover"
    LIMITS = "limits"
    SELFCHECK = "selfcheck"


_COMMANDS = {"crossover": Kind.CROSSOVER, "maxlen": Kind.LIMITS, "selfcheck": Kind.SELFCHECK}


def kind_of(run: RunInfo) -> Kind:
    """Return the kind by the command that made it; one side of a comparison says so itself."""
    # what follows the second word may have quotes that do not match
    return Kind.COMPARISON if run.interleaved else _COMMANDS.get("".join(run.command.split()[1:2]), Kind.RUN)


@dataclass(frozen=True)
class Found:
    """A run folder, as far as its run.json tells."""

    path: Path
    entry: Entry
    """The run without what came of its cells."""
    kind: Kind
    source: str
    """The suite's purpose, in words."""
    interleaved: str
    """The word that both sides of a comparison share."""
    size: int
    """Bytes of its records."""

    @property
    def place(self) -> str:
        """Return its folder below the results."""
        return self.entry.place


Members = tuple[Found, ...]
"""What one card is about: a run; or both sides of a comparison, the older commit first."""


@dataclass(frozen=True, order=True)
class LeftOut:
    """A folder or file that is not on the site, and why."""

    place: str
    why: str


def survey(results: Path) -> tuple[list[Found], list[LeftOut]]:
    """Look for run folders at any depth; return all runs by rising place, each once, and what was left out."""
    found, left_out = [], []

    def refused(error: OSError) -> None:
        place = Path(error.filename).relative_to(results).as_posix()
        left_out.append(LeftOut(one_line(place), error.strerror or "cannot be read"))

    for path in find_runs(results, refused):
        # below the results, so that a site does not tell where they were
        place = path.relative_to(results).as_posix()
        try:
            info, size = RunFolder(path).info(), RunFolder(path).size()
            entry = Entry.of(place, info, Summary(()))
            found.append(Found(path, entry, kind_of(info), info.suite.source, info.interleaved, size))
        except UNREADABLE as error:
            left_out.append(unreadable(path, place, error))
    # a reference and what it was copied from are one run: the folder with the most records is shown
    kept: dict[tuple[str, str, str], Found] = {}
    for each in sorted(found, key=lambda each: (-each.size, each.place)):
        first = kept.setdefault((each.entry.suite, each.entry.machine, each.entry.run), each)
        if first is not each:
            left_out.append(LeftOut(one_line(each.place), f"the same run as {one_line(first.place)}, which is shown"))
    return sorted(kept.values(), key=lambda each: each.place), left_out


def unreadable(path: Path, place: str, error: Exception) -> LeftOut:
    """Say why a run cannot be read, in words that name no folder of this machine."""
    return LeftOut(one_line(place), one_line(str(error).replace(f"{path}/", "").replace(str(path), "it")))


def together(found: Iterable[Found]) -> list[Members]:
    """Return every run by itself, but the two sides of a comparison together, where there is one older and one newer."""
    turns = grouped(((each.entry.suite, each.entry.machine, each.interleaved or f"\0{each.place}"), each) for each in found)
    members: list[Members] = []
    for runs in turns.values():
        sides = sorted(runs, key=lambda each: not each.entry.base)
        pair = [each.entry.base for each in sides] == [True, False]
        members += [tuple(sides)] if pair else [(each,) for each in sides]
    return members


def machine_words(machine: str) -> str:
    """Return `Intel Xeon, 2 cores, 2 threads` for `Intel(R) Xeon(R) Processor @ 2.60GHz, 2 cores, 2 threads`."""
    parts = map(without_noise, machine.split(","))
    return shorten(", ".join(filter(None, parts)) or machine, _MACHINE) or "a machine without a name"
