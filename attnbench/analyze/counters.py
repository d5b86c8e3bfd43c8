"""Memory counters of one cell over its memory replicates."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from attnbench.analyze.digest import Digest
from attnbench.schema.outcome import Counter


@dataclass(frozen=True)
class Memory:
    """Counters by name, bytes of the whole batch; where there are none at all, the reason."""

    counters: Mapping[str, Counter] = field(default_factory=dict)
    reason: str = "no memory pass was recorded"
    flags: tuple[str, ...] = ()
    replicates: int = 0

    def bytes(self, name: str) -> int | None:
        """One counter; None where it was not read."""
        counter = self.counters.get(name)
        return None if counter is None else counter.bytes

    def why_not(self, name: str) -> str:
        """Why a counter was not read; empty where it was."""
        counter = self.counters.get(name)
        if counter is None:
            return self.reason or f"{name} was not recorded"
        return "" if counter.bytes is not None else counter.reason or "it was not read"


def memory_of(finals: Iterable[Digest]) -> Memory:
    """The median of each counter over the memory replicates; their first failure is the reason where there are none."""
    finals = list(finals)
    measured = [final for final in finals if final.failed is None]
    failures = [final.failed for final in finals if final.failed is not None]
    if not measured:
        reason = f"{failures[0].status.value}: {failures[0].reason}" if failures else Memory().reason
        return Memory(reason=reason)
    names = dict.fromkeys(name for final in measured for name in final.memory)
    counters = {name: _median([final.memory[name] for final in measured if name in final.memory]) for name in names}
    flags = tuple(dict.fromkeys(flag for final in measured for flag in final.flags))
    return Memory(counters, "", flags, len(measured))


def _median(counters: Sequence[Counter]) -> Counter:
    """Over the readings of one source: of those read without reserve, else of whatever was read."""
    read = [c for c in counters if c.bytes is not None]
    if not read:
        return counters[0]
    first = next((c for c in read if c.reason is None), read[0])
    values = [c.bytes for c in read if c.source == first.source and c.bytes is not None]
    return first.model_copy(update={"bytes": round(statistics.median(values))})
