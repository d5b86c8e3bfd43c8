"""The name of a track: its method, its length, and those of its conditions that vary within its suite."""

from collections.abc import Iterable

from attnbench.analyze.sections import conditions_in_words, varied
from attnbench.schema.cell import Batch, Cell
from attnbench.schema.history import Track
from attnbench.schema.units import length


def track_names(tracks: Iterable[Track]) -> dict[tuple[str, str], str]:
    """Return by suite and cell key `linear.chunked(chunk=64), N=4k, forward, causal`."""
    suites: dict[str, dict[str, Cell]] = {}
    for track in tracks:
        suites.setdefault(track.suite, {})[track.cell.key] = track.cell
    found: dict[tuple[str, str], str] = {}
    for suite, cells in suites.items():
        varying = varied(map(conditions, cells.values()))
        names = {}
        for key, cell in cells.items():
            own = conditions(cell)
            parts = (cell.label, f"N={length(cell.problem.N)}", *(own.get(name, "") for name in varying))
            names[key] = ", ".join(filter(None, parts))
        # B follows from N in most suites, and is told where it does not
        alike = len(set(names.values())) < len(names)
        found |= {(suite, key): f"{names[key]}, B={cell.problem.B}" if alike else names[key] for key, cell in cells.items()}
    return found


def conditions(cell: Cell) -> dict[str, str]:
    """Tell all conditions besides method and length by name; of a model `copy`, `layers=2`."""
    return {
        "workload": cell.workload.words,
        "mask": cell.problem.mask,
        "dtype": cell.problem.dtype.value,
        "batch": "largest B" if cell.batch is Batch.LARGEST else "",
        **conditions_in_words(cell),
    }
