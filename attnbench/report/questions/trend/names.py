"""What a track is called: its method, its length, and those of its conditions that vary within its suite."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from attnbench.analyze.sections import axes_in_words
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
        varying = varied(list(cells.values())).values()
        names = {
            key: ", ".join(filter(None, (cell.label, f"N={length(cell.problem.N)}", *(words(cell) for words in varying))))
            for key, cell in cells.items()
        }
        # B follows from N in most suites, and is told where it does not
        alike = len(set(names.values())) < len(names)
        found |= {(suite, key): f"{names[key]}, B={cell.problem.B}" if alike else names[key] for key, cell in cells.items()}
    return found


def varied(cells: Sequence[Cell]) -> dict[str, Callable[[Cell], str]]:
    """Return the conditions besides method and length in which these cells differ: their names, and a cell's own in words."""
    told: dict[str, set[str]] = {}
    for cell in cells:
        # a cell without a model differs from the others by its workload already, and says nothing of models
        for name, words in _conditions(cell).items():
            told.setdefault(name, set()).add(words)
    return {name: partial(_condition, name) for name, several in told.items() if len(several) > 1}


def _condition(name: str, cell: Cell) -> str:
    return _conditions(cell).get(name, "")


def _conditions(cell: Cell) -> dict[str, str]:
    """Tell all conditions by name; of a model `copy`, `layers=2`."""
    found = {
        "workload": cell.workload.value,
        "mask": "causal" if cell.problem.causal else "non-causal",
        "dtype": cell.problem.dtype.value,
        "batch": "largest B" if cell.batch is Batch.LARGEST else "",
        **axes_in_words(cell),
    }
    for name, value in (item for model in (cell.training, cell.model) if model for item in model.model_dump().items()):
        found[name] = str(value) if name in {"task", "data", "config"} else f"{name}={value}"
    return found
