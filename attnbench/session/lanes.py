"""Lanes: the parts of a machine that a run is asked to measure on, and which of its bundles each may take."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from attnbench.measure import nvml
from attnbench.schedule.ledger import Ledger
from attnbench.schedule.rounds import Bundle, Rounds, bundles
from attnbench.schema.errors import ArgumentError, UsageError
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.session.scout import Scouted
from attnbench.worker.portion import ALL, Portion, of_cores, of_gpus

Devices = str | Sequence[str]
"""`cuda:0,cuda:1`, several such words, or `all`."""


def portions(devices: Devices = (), lanes: int | None = None) -> tuple[Portion, ...]:
    """A portion for each GPU that is named, or so many of the cores; without either the whole. Raises ArgumentError."""
    words = [word.strip() for text in ([devices] if isinstance(devices, str) else devices) for word in text.split(",")]
    try:
        if lanes is not None:
            if words:
                raise ArgumentError("lanes", lanes, "lanes share the cores of a CPU; each GPU of --devices is a lane already")
            return tuple(of_cores(lanes)) if lanes > 1 else (ALL,)
        if words == ["all"]:
            with nvml.session() as library:
                return tuple(of_gpus(list(range(library.nvmlDeviceGetCount()))))
        return tuple(of_gpus([_index(word) for word in dict.fromkeys(words)])) or (ALL,)
    except nvml.NvmlUnavailableError as error:
        raise ArgumentError("devices", "all", f"no GPU can be found: {error}; name them: cuda:0,cuda:1") from None
    except ValueError as error:
        raise ArgumentError("lanes" if lanes else "devices", lanes or ",".join(words), str(error)) from None


def _index(word: str) -> int:
    kind, _, number = word.partition(":")
    if kind != "cuda" or not number.isdecimal():
        raise ArgumentError("devices", word, "write cuda:0,cuda:1 or all; on a CPU, --lanes 2 shares its cores out")
    return int(number)


def shared_out(scouted: Scouted, lanes: Sequence[RunInfo], devices: Sequence[str], records: Iterable[Record]) -> Rounds:
    """The rounds of a run; a bundle that was begun stays with the lane of its device, or of one like it.

    Raises UsageError where nothing here is like the device that a bundle was begun on.
    """
    ledgers = {info.environment_digest: Ledger() for info in lanes}
    found, begun = bundles(lanes[0].cells), dict[str, Record]()
    for record in records:
        if record.environment in ledgers:
            ledgers[record.environment].add(record)
        if record.seconds is not None:
            begun[record.job.cell.key] = record
    jobs = [scouted.jobs(info, ledgers[info.environment_digest]) for info in lanes]
    rounds = Rounds(jobs, [])
    if len(lanes) == 1:
        return replace(rounds, left=found)
    for bundle in found:
        earlier = next((begun[cell.key] for cell in bundle.cells if cell.key in begun), None)
        if earlier is None:
            rounds.left.append(bundle)
            continue
        alike = [lane for lane, info in enumerate(lanes) if info.environment_digest == earlier.environment]
        if not alike:
            raise UsageError(
                f"{_words(bundle)} was begun on another device ({earlier.host}, {earlier.device}), unlike any here"
            )
        same = [lane for lane in alike if devices[lane] == earlier.device]
        least = min(same or alike, key=lambda lane: len(rounds.own.get(lane, ())))
        rounds.own.setdefault(least, []).append(bundle)
    return rounds


def _words(bundle: Bundle) -> str:
    cell = bundle.cells[0]
    return f"N={cell.problem.N} {cell.workload}"
