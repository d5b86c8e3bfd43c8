"""Time launches of a Triton kernel on the current GPU, to fill the table of its family's triton/tuning.py."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from triton.compiler.errors import CompilationError  # type: ignore[import-untyped, unused-ignore]
from triton.runtime.errors import OutOfResources, PTXASError  # type: ignore[import-untyped, unused-ignore]
from triton.testing import do_bench  # type: ignore[import-untyped, unused-ignore]

_Launch = TypeVar("_Launch")


def fastest(launches: Iterable[_Launch], planned: Callable[[_Launch], Callable[[], object]]) -> list[tuple[float, _Launch]]:
    """Time what is planned with each launch, in seconds, best first; leave out what does not compile.

    Times are medians of warm calls by CUDA events.
    """
    found = []
    for launch in launches:
        try:
            found.append((float(do_bench(planned(launch), return_mode="median")) / 1e3, launch))
        except (CompilationError, OutOfResources, PTXASError):
            continue
    return sorted(found, key=lambda pair: pair[0])
