"""What a track is called: its method, its length, and of its conditions those that vary within its suite."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from attnbench.schema.cell import Batch, Cell
from attnbench.schema.history import Track
from attnbench.schema.training import Training
from attnbench.schema.units import length


def _of_model(name: str, cell: Cell) -> str:
    """`copy`, `layers=2`; nothing of a cell without a model."""
    if cell.training is None:
        return ""
    value = getattr(cell.training, name)
    return str(value) if name in {"task", "data"} else f"{name}={value}"


_CONDITIONS: Mapping[str, Callable[[Cell], str]] = {
    "workload": lambda cell: cell.workload.value,
    "mask": lambda cell: "causal" if cell.problem.causal else "non-causal",
    "dtype": lambda cell: cell.problem.dtype.value,
    "batch": lambda cell: "largest B" if cell.batch is Batch.LARGEST else "",
    "H": lambda cell: f"H={cell.problem.H}",
    "D": lambda cell: f"D={cell.problem.D}",
    "M": lambda cell: "" if cell.problem.M == cell.problem.D else f"M={cell.problem.M}",
    "kv_heads": lambda cell: "" if cell.problem.kv_heads == cell.problem.H else f"kv_heads={cell.problem.kv_heads}",
    "padding": lambda cell: f"padding {cell.problem.padding:g}" if cell.problem.padding else "",
    "device": lambda cell: cell.device,
    "inputs": lambda cell: f"{cell.inputs.value} inputs",
    "recording": lambda cell: cell.recording,
    "scale": lambda cell: f"scale {cell.scale:g}",
    "allocator": lambda cell: f"allocator {cell.allocator.value}",
    "precision": lambda cell: f"matmul {cell.matmul_precision.value}",
    "clock": lambda cell: f"{cell.clock.value} clock",
}
_MODEL = {name: partial(_of_model, name) for name in Training.model_fields}


def track_names(tracks: Iterable[Track]) -> dict[tuple[str, str], str]:
    """By suite and cell key: `linear.chunked(chunk=64), N=4k, forward, causal`."""
    suites: dict[str, dict[str, Cell]] = {}
    for track in tracks:
        suites.setdefault(track.suite, {})[track.cell.key] = track.cell
    return {(suite, key): name for suite, cells in suites.items() for key, name in _names(cells).items()}


def _names(cells: Mapping[str, Cell]) -> dict[str, str]:
    varying = list(varied(list(cells.values())).values())
    names = {key: _name(cell, varying) for key, cell in cells.items()}
    if len(set(names.values())) == len(names):
        return names
    # B follows from N in most suites, and is told where it does not
    return {key: f"{names[key]}, B={cell.problem.B}" for key, cell in cells.items()}


def varied(cells: Sequence[Cell]) -> dict[str, Callable[[Cell], str]]:
    """The conditions in which these cells differ, method and length apart: what each is called, and a cell's own in words."""
    # a cell without a model differs from the others by its workload already
    trained = [cell for cell in cells if cell.training]
    every = [*((name, words, cells) for name, words in _CONDITIONS.items())]
    every += [(name, words, trained) for name, words in _MODEL.items()]
    return {name: words for name, words, among in every if len({words(cell) for cell in among}) > 1}


def _name(cell: Cell, varying: Iterable[Callable[[Cell], str]]) -> str:
    return ", ".join(filter(None, (cell.label, f"N={length(cell.problem.N)}", *(words(cell) for words in varying))))
