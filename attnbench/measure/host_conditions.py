"""The state of a CPU around a measurement: load, stolen time, throttling by the container, governor."""

import os
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from attnbench.measure.environment import Facts

_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


@dataclass(frozen=True)
class HostCounters:
    """Counters that only rise; read before and after a measurement, they tell what happened in between."""

    total_ticks: int
    steal_ticks: int
    throttled: int | None
    busy_ticks: int = 0
    own_seconds: float = 0.0

    @classmethod
    def read(cls) -> Self:
        """Read the ticks of the cores that this process may use, and cpu.stat of its container; zeros without /proc."""
        try:
            ticks = _ticks(Path("/proc/stat").read_text().splitlines())
        except (OSError, ValueError):
            ticks = []
        steal = ticks[7] if len(ticks) == 8 else 0
        waiting = sum(ticks[3:5]) + steal
        return cls(sum(ticks), steal, throttled_periods(), sum(ticks) - waiting, sum(os.times()[:2]))


def _ticks(lines: list[str]) -> list[int]:
    """Return the sums of the first eight columns over the cores that this process may use: what goes on on others is theirs.

    Raises ValueError where a line holds no numbers.
    """
    own = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    rows = [line.split()[:9] for line in lines if line.startswith("cpu")]
    mine = [row for row in rows if row[0] in own] or rows[:1]
    return [sum(map(int, column)) for column in zip(*(row[1:] for row in mine), strict=True)]


def throttled_periods() -> int | None:
    """Return how often this container was held back by its CPU quota; None without a quota."""
    return counted(cgroup_file("cpu.stat"), "nr_throttled")


def counted(file: Path | None, name: str) -> int | None:
    """Return the count of that name in a file of the kernel with one on each line; None where there is none."""
    return next((int(line.split()[1]) for line in _lines(file) if line.startswith(f"{name} ")), None)


def cgroup_file(name: str) -> Path | None:
    """Return the path of a file of this process' own control group (version 2); None where there is none."""
    for line in _lines(Path("/proc/self/cgroup")):
        if line.startswith("0::"):
            path = Path("/sys/fs/cgroup") / line[3:].lstrip("/") / name
            return path if path.exists() else None
    return None


def _lines(path: Path | None) -> list[str]:
    try:
        return path.read_text().splitlines() if path else []
    except OSError:
        return []


def facts(before: HostCounters, after: HostCounters) -> Facts:
    """Return what a reader must know about the host during a measurement."""
    ticks = after.total_ticks - before.total_ticks
    own = (after.own_seconds - before.own_seconds) * os.sysconf("SC_CLK_TCK")
    others = max(0.0, after.busy_ticks - before.busy_ticks - own)
    return {
        "others_percent": 100 * others / ticks if ticks else None,
        "load_1min": os.getloadavg()[0],
        "steal_percent": 100 * (after.steal_ticks - before.steal_ticks) / ticks if ticks else None,
        "cgroup_throttled": None if after.throttled is None else after.throttled - (before.throttled or 0),
        "governor": next(iter(_lines(_GOVERNOR)), None),
    }


def flags(conditions: Facts, samples: list[float]) -> tuple[str, ...]:
    """Return the warnings that apply: `noisy` (spread over 10 %), `loaded` (others took over 5 %), `stolen`, `throttled`.

    `loaded` does not use the load average, which counts our own threads too and lags by a minute.
    """
    steal, others = float(conditions.get("steal_percent") or 0), float(conditions.get("others_percent") or 0)
    found = {
        "noisy": len(samples) > 1 and statistics.stdev(samples) > 0.10 * statistics.fmean(samples),
        "loaded": others > 5.0,
        "stolen": steal > 1.0,
        "throttled": bool(conditions.get("cgroup_throttled")),
    }
    return tuple(name for name, holds in found.items() if holds)
