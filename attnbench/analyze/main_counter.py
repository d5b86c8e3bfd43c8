"""The one memory counter that the tables and plots of a run show: two kinds of number are never mixed."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mode

from attnbench.analyze.cells import CellSummary
from attnbench.schema.outcome import STATE_SOURCE, Counter

_PREFERRED = {
    "cuda": ("torch_allocated_peak", "nvml_process_peak", "nvml_device_delta"),
    "cpu": ("host_rss_peak", "torch_profiler_peak"),
}


@dataclass(frozen=True)
class MainCounter:
    """A counter and its source; `note` says why it is not the usual one."""

    name: str
    source: str
    note: str = ""

    def per_sample(self, summary: CellSummary) -> float | None:
        """Return bytes per sample of the batch; None where this counter was not read by this source."""
        found = summary.memory.bytes(self.name)
        return None if found is None or self.why_not(summary) else found * summary.per_sample

    def why_not(self, summary: CellSummary) -> str:
        """Say why this cell has no such number; nothing where it has."""
        if not summary.ok:
            return f"no memory is shown where there is no time ({summary.status})"
        counter = summary.memory.counters.get(self.name)
        if counter is not None and counter.bytes is not None and counter.source != self.source:
            return f"{self.name} was read differently: {counter.source}"
        return summary.memory.why_not(self.name)


STATE = MainCounter("state_bytes", STATE_SOURCE)
"""The bytes that a decoding method carries from token to token; exact, by shape."""


def main_counter(summaries: Sequence[CellSummary]) -> MainCounter | None:
    """Choose the first of the device's usual counters that most cells have without reserve; None where no cell has any."""
    cells = [s for s in summaries if s.ok and s.memory.counters]
    names = _PREFERRED["cuda" if any(s.cell.device_kind == "cuda" for s in cells) else "cpu"]
    for sure in (True, False):
        readings = {name: _readings(cells, name, sure=sure) for name in names}
        most = max(readings, key=lambda name: len(readings[name]))
        chosen = next((name for name in names if 2 * len(readings[name]) > len(cells)), most)
        if readings[chosen]:
            reserves = [c.reason for s in cells if (c := s.memory.counters.get(names[0])) and c.reason]
            why = mode(reserves or ["it was not recorded"])
            note = "" if chosen == names[0] else f"{names[0]} could not be used: {why}"
            return MainCounter(chosen, mode(c.source for c in readings[chosen]), note)
    return None


def steady_counter(summaries: Sequence[CellSummary]) -> MainCounter | None:
    """Find a counter that is the same in every process, and so can be judged by one reading; None where none was read.

    What the operating system counts is not: two runs of the same code differed by up to 85 % for small tensors.
    """
    for name in ("torch_allocated_peak", "torch_profiler_peak"):
        if found := _readings(summaries, name, sure=True):
            return MainCounter(name, mode(c.source for c in found))
    return None


def _readings(cells: Sequence[CellSummary], name: str, *, sure: bool) -> list[Counter]:
    """Return what was read; with `sure`, only what was read without reserve."""
    counters = (s.memory.counters.get(name) for s in cells if s.ok)
    return [c for c in counters if c is not None and c.bytes is not None and not (sure and c.reason)]
