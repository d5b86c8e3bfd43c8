"""The energy that a device takes while calls are sampled: a GPU's by NVML's counter, a CPU's by RAPL.

Counters are read before the first of these samples and after the last, never in between; every failure is a reason in words.
"""

import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from attnbench.measure import nvml
from attnbench.measure.environment import Facts

POWERCAP = Path("/sys/class/powercap")
_UPDATES = 5
"""The updates of its counter that a window must last, since the counter may be late by one of them at either end."""
_TIMED = 0.5
"""The least share of the window that timed calls must take: the energy of what is between them is counted as theirs."""
_APART = 0.2
"""The share by which the counter and the power that was sampled may differ."""
_MOST_WATTS = 1000.0
"""More than any package of a CPU draws for long."""


class UnreadableError(RuntimeError):
    """The energy cannot be read; the message says why."""


@dataclass(frozen=True)
class Power:
    """A sample of a device's power."""

    seconds: float
    """The time of the sample, by the device's own clock."""
    watts: float


class Rapl:
    """The counters of the packages of an Intel or AMD processor: all their cores and caches, whichever process uses them."""

    period = 1e-3
    """The longest time in seconds from one update of the counter to the next."""

    def __init__(self, folder: Path = POWERCAP) -> None:
        # the other domains are parts of a package, or the whole board
        zones = [zone for zone in sorted(folder.glob("intel-rapl:*")) if _text(zone / "name").startswith("package-")]
        if not zones:
            raise UnreadableError(f"{folder} shows no package of RAPL: few virtual machines and containers do")
        self._counters = [zone / "energy_uj" for zone in zones]
        self._ranges = [_number(zone / "max_energy_range_uj") for zone in zones]
        own, all_cores = len(os.sched_getaffinity(0)), os.cpu_count() or 0
        others = f", where this process may use {own} of {all_cores} cores" if own < all_cores else ""
        self.name = f"RAPL, {', '.join(_text(zone / 'name') for zone in zones)}{others}"

    def read(self) -> tuple[int, ...]:
        """Read the counter of each package in µJ. Raises UnreadableError."""
        return tuple(_number(counter) for counter in self._counters)

    def joules(self, before: tuple[int, ...], after: tuple[int, ...], seconds: float) -> float:
        """Sum up over the packages; a counter that has begun again from 0 did so once. Raises UnreadableError."""
        total = 0
        for first, last, whole in zip(before, after, self._ranges, strict=True):
            if whole / 1e6 < _MOST_WATTS * seconds:
                raise UnreadableError(f"RAPL counts up to {whole / 1e6:.0f} J, which may be passed twice in {seconds:.0f} s")
            total += last - first + (whole if last < first else 0)
        return total / 1e6

    def power(self) -> list[Power]:
        """Return nothing: the kernel keeps no samples."""
        return []


class NvmlMeter:
    """The counter of a whole GPU with its memory, which any process on it moves."""

    name, period = "NVML, total energy of the GPU", 0.1

    def __init__(self, library: Any, device: Any) -> None:  # noqa: ANN401 - NVML has no types
        self.nvml, self.device = library, device

    def read(self) -> tuple[int, ...]:
        """Read the counter in mJ. Raises UnreadableError."""
        try:
            return (int(self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.device)),)
        except (self.nvml.NVMLError, AttributeError) as error:
            raise UnreadableError(f"NVML tells no total energy of this device: {error}") from error

    def joules(self, before: tuple[int, ...], after: tuple[int, ...], seconds: float) -> float:  # noqa: ARG002 - as a Meter
        """Return the energy between two readings; a counter that went back gives a negative one."""
        return (after[0] - before[0]) / 1e3

    def power(self) -> list[Power]:
        """Return what the driver has kept, some seconds; asking for it disturbs nothing that was sampled."""
        try:
            _, kept = self.nvml.nvmlDeviceGetSamples(self.device, self.nvml.NVML_TOTAL_POWER_SAMPLES, 0)
        except (self.nvml.NVMLError, AttributeError):
            return []
        return [Power(each.timeStamp / 1e6, each.sampleValue.uiVal / 1e3) for each in kept]


Meter = Rapl | NvmlMeter
"""A counter of energy, and where the device keeps samples of its power, these."""


@dataclass(frozen=True)
class Energy:
    """The energy of one call of the whole batch; None with a reason where it is not known, and never 0."""

    joules_per_call: float | None
    facts: Facts
    flags: tuple[str, ...] = ()


@dataclass
class EnergyProbe:
    """Reads a meter at both ends of a window in which calls are sampled."""

    meter: Meter | None
    reason: str = ""
    """Why nothing can be read."""
    _readings: list[tuple[int, ...]] = field(default_factory=list)
    _power: list[Power] = field(default_factory=list)

    def read(self) -> None:
        """Read the meter, where the window begins and where it ends."""
        if self.meter is None or self.reason:
            return
        try:
            self._readings.append(self.meter.read())
        except UnreadableError as error:
            self.reason = str(error)
        if len(self._readings) == 2:
            self._power = self.meter.power()

    def around(self, mark: Callable[[], object]) -> Callable[[], None]:
        """Return what calls `mark` at both ends of a window, and reads the meter before the first and after the second call."""

        def both() -> None:
            if self._readings:
                mark()
                self.read()
            else:
                self.read()
                mark()

        return both

    def energy(self, seconds: float, calls: int, timed: float) -> Energy:
        """Share the energy of a window of so many seconds out among its calls, which were timed for `timed` seconds of it."""
        meter, shortest = self.meter, _UPDATES * self.meter.period if self.meter else 0.0
        try:
            if meter is None or len(self._readings) != 2:
                raise UnreadableError(self.reason or "nothing was read")
            if seconds < shortest or not calls:
                raise UnreadableError(
                    f"samples were taken for {seconds:.3g} s, and the counter needs {shortest:g} s: "
                    f"it is up to {meter.period:g} s late at either end"
                )
            if timed < _TIMED * seconds:
                share = f"{timed / seconds:.0%} of the time between the readings"
                raise UnreadableError(f"timed calls took {share}, and the rest would count as theirs")
            before, after = self._readings
            joules = meter.joules(before, after, seconds)
            if joules <= 0:
                raise UnreadableError(f"the counter did not rise in {seconds:.3g} s ({meter.name})")
        except UnreadableError as error:
            return Energy(None, {"energy_reason": str(error)})
        by_power = integrated(self._power, seconds)
        facts: Facts = {
            "energy_meter": meter.name,
            "energy_joules": joules,
            "energy_by_power_joules": by_power,
            "energy_calls": calls,
            "energy_timed_share": timed / seconds,
        }
        apart = by_power is not None and abs(by_power - joules) > _APART * joules
        return Energy(joules / calls, facts, ("energy_disagrees",) if apart else ())


def integrated(power: Sequence[Power], seconds: float) -> float | None:
    """Integrate evenly spaced samples of power over so many seconds up to the newest, in joules.

    Returns None where they reach back over less than half of that time.
    """
    if not power:
        return None
    begin = max(each.seconds for each in power) - seconds
    if min(each.seconds for each in power) > begin + seconds / 2:
        return None
    return statistics.fmean(each.watts for each in power if each.seconds >= begin) * seconds


@contextmanager
def metered(device: str, powercap: Path = POWERCAP) -> Iterator[EnergyProbe]:
    """Open the meter of a device for the time of a block; where there is none, the probe says why."""
    with ExitStack() as stack:
        try:
            meter: Meter
            if device.startswith("cuda"):
                library = stack.enter_context(nvml.session())
                meter = NvmlMeter(library, nvml.handle(library, str(torch.cuda.get_device_properties(device).uuid)))
            else:
                meter = Rapl(powercap)
            probe = EnergyProbe(meter)
        except (UnreadableError, nvml.NvmlUnavailableError) as error:
            probe = EnergyProbe(None, str(error))
        yield probe


def _number(file: Path) -> int:
    """Read a number in a file of the kernel. Raises UnreadableError."""
    text = _text(file)
    if not text.isdigit():
        raise UnreadableError(f"{file} holds no number: {text[:40]!r}")
    return int(text)


def _text(file: Path) -> str:
    """Read a file of the kernel. Raises UnreadableError."""
    try:
        return file.read_text().strip()
    except OSError as error:
        root = "; most kernels let only root read it" if isinstance(error, PermissionError) else ""
        raise UnreadableError(f"{file} cannot be read: {error.strerror}{root}") from error
