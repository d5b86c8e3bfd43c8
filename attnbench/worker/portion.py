"""Portions: the parts of this machine that lanes measure on, one GPU each, or some cores each."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_CORES = Path("/sys/devices/system/cpu")


@dataclass(frozen=True)
class Portion:
    """One GPU, or some cores; without either all that there is."""

    gpu: str = ""
    """What CUDA_VISIBLE_DEVICES is for processes on it: an index or a UUID."""
    cores: tuple[int, ...] = ()
    of: int = 1
    """Of how many portions of its kind this is one."""

    @property
    def name(self) -> str:
        """Name it in a record: `cores 0,1`; empty for a GPU, which has a name of its own, and for all."""
        return f"cores {','.join(map(str, self.cores))}" if self.cores else ""


ALL = Portion()


def of_cores(count: int) -> list[Portion]:
    """Return so many portions of the cores that this process may use, hardware threads of a core together.

    Neighbouring cores, which share caches, come into one portion. Raises ValueError where there are too few.
    """
    by_core: dict[tuple[int, ...], list[int]] = {}
    for number in sorted(os.sched_getaffinity(0)):
        by_core.setdefault(_place(number), []).append(number)
    whole = [by_core[place] for place in sorted(by_core)]
    if not 1 <= count <= len(whole):
        raise ValueError(f"this process may use {len(whole)} {'core' if len(whole) == 1 else 'cores'}, and each lane needs one")
    # all of one size, or they would be unlike devices; what is left over rests
    size = len(whole) // count
    parts = [whole[size * i : size * (i + 1)] for i in range(count)]
    return [Portion(cores=tuple(number for core in part for number in core), of=count) for part in parts]


def _place(number: int) -> tuple[int, ...]:
    """Return the socket and the core that a hardware thread belongs to; where that is not known, itself."""
    try:
        names = ("physical_package_id", "core_id")
        return tuple(int((_CORES / f"cpu{number}/topology" / name).read_text()) for name in names)
    except (OSError, ValueError):
        return (0, number)


def shown_gpus() -> list[str] | None:
    """Return what CUDA_VISIBLE_DEVICES shows of the GPUs; None where it is not set, and so shows all."""
    words = os.environ.get("CUDA_VISIBLE_DEVICES")
    return None if words is None else [word.strip() for word in words.split(",") if word.strip()]


def of_gpus(indices: Sequence[int]) -> list[Portion]:
    """Return a portion for each GPU, counted as torch counts them: among those that CUDA_VISIBLE_DEVICES shows, if it is set.

    Raises ValueError where that shows fewer.
    """
    shown = shown_gpus()
    if shown is not None and (beyond := [index for index in indices if index >= len(shown)]):
        raise ValueError(f"cuda:{beyond[0]}: CUDA_VISIBLE_DEVICES shows only {len(shown)} of the GPUs")
    return [Portion(gpu=str(index) if shown is None else shown[index], of=len(indices)) for index in indices]
