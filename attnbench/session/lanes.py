"""Lanes and shards: what a run measures on at the same time, and which of its bundles each may take."""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from attnbench.measure import nvml
from attnbench.schedule.cells import CellJobs
from attnbench.schedule.ledger import Ledger
from attnbench.schedule.rounds import Bundle, Rounds, bundles
from attnbench.schema.cell import Cell
from attnbench.schema.errors import ArgumentError
from attnbench.schema.outcome import Status
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.schema.suite import Suite
from attnbench.schema.units import counted
from attnbench.session.scout import Scouted
from attnbench.suite.expand import Bundles, expand
from attnbench.worker.portion import ALL, Portion, of_cores, of_gpus, shown_gpus

Devices = str | Sequence[str]
"""`cuda:0,cuda:1`, several such words, or `all`."""


def portions(devices: Devices = (), lanes: int | None = None) -> tuple[Portion, ...]:
    """Return a portion for each GPU named, or so many of the cores; without either the whole. Raises ArgumentError."""
    words = [word.strip() for text in ([devices] if isinstance(devices, str) else devices) for word in text.split(",") if word]
    try:
        if lanes is not None:
            if words:
                raise ArgumentError("lanes", lanes, "lanes share the cores of a CPU; each GPU of --devices is a lane already")
            return (ALL,) if lanes == 1 else tuple(of_cores(lanes))
        if words == ["all"]:
            if not (count := _count_gpus()):
                raise ValueError("no GPU can be found, or CUDA_VISIBLE_DEVICES hides them")
            return tuple(of_gpus(range(count)))
        return tuple(of_gpus([_index(word) for word in dict.fromkeys(words)])) or (ALL,)
    except nvml.NvmlUnavailableError as error:
        raise ArgumentError("devices", "all", f"no GPU can be found: {error}; name them: cuda:0,cuda:1") from None
    except ValueError as error:
        raise ArgumentError("devices" if lanes is None else "lanes", words if lanes is None else lanes, str(error)) from None


def _count_gpus() -> int:
    """Count the GPUs that torch may see; NVML counts those too that CUDA_VISIBLE_DEVICES hides. Raises NvmlUnavailableError."""
    if (shown := shown_gpus()) is not None:
        return len(shown)
    with nvml.session() as library:
        return int(library.nvmlDeviceGetCount())


def _index(word: str) -> int:
    kind, _, number = word.partition(":")
    if kind != "cuda" or not number.isdecimal():
        raise ArgumentError("devices", word, "write cuda:0,cuda:1 or all; on a CPU, --lanes 2 shares its cores out")
    return int(number)


def shared_out(
    scouted: Scouted,
    lanes: Sequence[RunInfo],
    devices: Sequence[str],
    records: Iterable[Record],
    say: Callable[[str], object],
    retried: Collection[Status] = (),
) -> Rounds:
    """Share out the rounds of a run; a bundle that was begun stays with the lane of its device, or of one like it.

    One that was begun on a device unlike any here, and not finished, is begun anew: what is compared is measured on one. What
    failed with a status that is `retried` is tried again.
    """
    ledgers = {info.environment_digest: Ledger() for info in lanes}
    here = set(ledgers)
    begun, elsewhere = fill(ledgers, records, retried)
    rounds, anew = Rounds([scouted.jobs(info, ledgers[info.environment_digest]) for info in lanes], deque()), 0
    for bundle in bundles(lanes[0].cells):
        earlier = next((begun[cell.key] for cell in bundle.cells if cell.key in begun), None)
        if earlier is not None and earlier.environment not in here:
            if is_whole(bundle, rounds.lanes[0], ledgers.values()):
                continue
            anew += 1
            for record in (each for cell in bundle.cells for each in elsewhere.get(cell.key, ())):
                for digest in here:
                    ledgers[digest].begin_anew(record)
            earlier = None
        if earlier is None or len(lanes) == 1:
            rounds.left.append(bundle)
            continue
        alike = [lane for lane, info in enumerate(lanes) if info.environment_digest == earlier.environment]
        same = [lane for lane in alike if devices[lane] == earlier.device]
        least = min(same or alike, key=lambda lane: len(rounds.own.get(lane, ())))
        rounds.own.setdefault(least, deque()).append(bundle)
    if anew:
        say(f"{counted(anew, 'bundle')} begun on a device unlike any here: begun anew, and what was measured there is kept")
    return rounds


def fill(
    ledgers: dict[str, Ledger], records: Iterable[Record], retried: Collection[Status] = ()
) -> tuple[dict[str, Record], dict[str, list[Record]]]:
    """Fill a ledger for each device; of each cell return the last record that was started, and those of devices not here."""
    here, begun, settled = set(ledgers), dict[str, Record](), dict[str, str]()
    elsewhere: dict[str, list[Record]] = {}
    for record in records:
        key, device = record.job.cell.key, record.environment
        ledger = ledgers.setdefault(device, Ledger())
        if record.settles:
            if settled.setdefault(key, device) != device:
                # begun anew: what the earlier device had counts no more, also where it goes on there
                ledgers[settled[key]].forget(record.job.cell)
            settled[key] = device
        (ledger.begin_anew if failed_with(record, retried) else ledger.add)(record)
        if device not in here:
            elsewhere.setdefault(key, []).append(record)
        if record.seconds is not None:
            begun[key] = record
    return begun, elsewhere


def failed_with(record: Record, statuses: Collection[Status]) -> bool:
    """Say whether a record is a failure of one of these kinds."""
    return record.failed is not None and record.failed.status in statuses


def is_whole(bundle: Bundle, jobs: CellJobs, ledgers: Iterable[Ledger]) -> bool:
    """Say whether nothing is left to do for a bundle, by what is known of one device, of each of which there is a ledger."""
    return any(all(map(replace(jobs, ledger=ledger).finished, bundle.cells)) for ledger in ledgers)


@dataclass(frozen=True)
class Shard:
    """One of several equal shares of a run's bundles, counted from 1."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    @classmethod
    def read(cls, text: str) -> "Shard":
        """`3/8`. Raises ArgumentError."""
        number, slash, of = text.partition("/")
        if not (slash and number.isdecimal() and of.isdecimal() and len(text) < 20 and 1 <= int(number) <= int(of)):
            raise ArgumentError("shard", text, "write the number of the share and how many there are, as 3/8")
        return cls(int(number), int(of))

    def bundles(self, cells: Sequence[Cell]) -> list[Bundle]:
        """Return its share of them. Long and short lengths are dealt out evenly."""
        return bundles(cells)[self.number - 1 :: self.of]

    def cells(self, cells: Sequence[Cell]) -> tuple[Cell, ...]:
        """Return the cells of its bundles: none where there are fewer bundles than shares."""
        return tuple(cell for bundle in self.bundles(cells) for cell in bundle.cells)

    def numbers(self, suite: Suite) -> range:
        """Return the numbers of its bundles of a suite: none where the suite has fewer bundles than there are shares."""
        return range(self.number - 1, len(Bundles(suite)), self.of)

    def expand(self, suite: Suite) -> list[Cell]:
        """Make the cells of its share of a suite, and no others. Raises as `expand`."""
        return expand(suite, self.numbers(suite))
