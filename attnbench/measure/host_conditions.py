"""The state of a CPU around a measurement: load, stolen time, throttling by the container, governor."""

import os
import statistics
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
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
    """Return how often a CPU quota held this container back, or one around it; None without a quota."""
    found = [count for group in control_groups() if (count := counted(group / "cpu.stat", "nr_throttled")) is not None]
    return sum(found) if found else None


def left_by_limits() -> list[int]:
    """Return the bytes that each limit of memory leaves, of this container or of one around it.

    Files that were read and are not in use count as left, as they do for the whole machine: their pages are taken first.
    """
    found = []
    for group in control_groups():
        limit, current = (next(iter(_lines(group / name)), "max") for name in ("memory.max", "memory.current"))
        if "max" not in {limit, current}:
            found.append(int(limit) - int(current) + (counted(group / "memory.stat", "inactive_file") or 0))
    return found


def counted(file: Path, name: str) -> int | None:
    """Return the count of that name in a file of the kernel with one on each line; None where there is none."""
    return next((int(line.split()[1]) for line in _lines(file) if line.startswith(f"{name} ")), None)


def control_groups() -> list[Path]:
    """Return the folder of this process' own control group (version 2), then those of the groups around it."""
    for line in _lines(Path("/proc/self/cgroup")):
        if line.startswith("0::"):
            own = PurePosixPath(line[3:].lstrip("/"))
            return [Path("/sys/fs/cgroup") / group for group in (own, *own.parents)]
    return []


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
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
