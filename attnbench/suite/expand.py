"""From a Suite to its cells: sorted small to large, pure."""

from collections.abc import Iterator
from itertools import product
from math import prod

from pydantic import ValidationError

from attnbench.schema.cell import Batch, Cell, Workload
from attnbench.schema.condition import compile_condition
from attnbench.schema.noun import Scalar
from attnbench.schema.problem import Problem
from attnbench.schema.suite import MOST_PROCESSES, Axes, Method, Suite, TrainingAxes
from attnbench.schema.training import Training
from attnbench.suite.load import SuiteError

MOST_CELLS = 100_000
# the fields of a cell that say how it is run; they have the names of their axes
_CONDITIONS = ("inputs", "recording", "scale", "allocator", "matmul_precision", "clock")


class TooManyCellsError(ValueError):
    """A suite whose product of axes is beyond reason."""


def expand(suite: Suite) -> list[Cell]:
    """All cells of a suite that was resolved for its device; small lengths first, one shape after another.

    Raises TooManyCellsError before anything is built, and SuiteError where a combination of axes makes no problem,
    a `when` cannot be decided, or no cell is left.
    """
    variants = sum(prod(len(v) for v in m.params.values()) for m in suite.methods)
    count = _kinds(suite) * _shapes(suite.axes) * variants
    if count > MOST_CELLS:
        raise TooManyCellsError(f"suite {suite.name!r} has {count:,} cells; at most {MOST_CELLS:,} make sense")
    try:
        cells = {cell.key: cell for cell in _cells(suite)}
    except ValueError as error:
        why = error.errors()[0]["msg"].removeprefix("Value error, ") if isinstance(error, ValidationError) else str(error)
        raise SuiteError(f"suite {suite.name!r}: {why}") from None
    if (processes := len(cells) * suite.replicates) > MOST_PROCESSES:
        raise TooManyCellsError(
            f"suite {suite.name!r} has {len(cells):,} cells x {suite.replicates:,} replicates, {processes:,} processes; "
            f"at most {MOST_PROCESSES:,} make sense"
        )
    if not cells:
        raise SuiteError(f"suite {suite.name!r}: no cell is left; look at its axes and at every `when`")
    return list(cells.values())


def _cells(suite: Suite) -> Iterator[Cell]:
    methods = [(m, compile_condition(m.when, frozenset(m.params)) if m.when else None) for m in suite.methods]
    for (problem, batch), kind, conditions in product(_problems(suite.axes), _works(suite), _conditions(suite.axes)):
        same = {"problem": problem, "batch": batch, "device": suite.device, **kind, **conditions}
        for method, when in methods:
            for params in _variants(method):
                cell = Cell.model_validate({"method": method.name, "params": params, **same})
                if when is None or when(cell.values):
                    yield _trainable(cell)


def _shapes(axes: Axes) -> int:
    per_axis = (axes.N, axes.B or axes.tokens, axes.H, axes.D, axes.M, axes.kv_heads, axes.dtype, axes.causal, axes.padding)
    return prod(len(axis) or 1 for axis in (*per_axis, *(getattr(axes, name) for name in _CONDITIONS)))


def _problems(axes: Axes) -> Iterator[tuple[Problem, Batch]]:
    for N, dtype, causal, padding, H, D in product(sorted(axes.N), axes.dtype, axes.causal, axes.padding, axes.H, axes.D):
        for (B, batch), M, kv_heads in product(_batches(axes, N), axes.M or (D,), axes.kv_heads or (H,)):
            same = {"dtype": dtype, "causal": causal, "padding": padding}
            yield Problem(B=B, H=H, N=N, D=D, M=M, kv_heads=kv_heads, **same), batch


def _batches(axes: Axes, N: int) -> list[tuple[int, Batch]]:
    """B and where it comes from; one that is searched for starts from 1."""
    sizes = axes.B or tuple(max(1, tokens // N) for tokens in axes.tokens) or (1,)
    return [(1, Batch.LARGEST) if B == "max" else (B, Batch.FIXED) for B in sizes]


def _conditions(axes: Axes) -> Iterator[dict[str, str]]:
    """How cells are run."""
    for values in product(*(getattr(axes, name) for name in _CONDITIONS)):
        yield dict(zip(_CONDITIONS, values, strict=True))


def _works(suite: Suite) -> Iterator[dict[str, Workload | Training]]:
    """What is done: a workload, and with it the model around the attention where it has one."""
    for workload in suite.workloads:
        if workload.has_model and suite.training is not None:
            for training in _trainings(suite.training):
                yield {"workload": workload, "training": training}
        else:
            yield {"workload": workload}


def _trainings(axes: TrainingAxes) -> Iterator[Training]:
    names = tuple(Training.model_fields)
    for values in product(*(getattr(axes, name) for name in names)):
        yield Training.model_validate(dict(zip(names, values, strict=True)))


def _kinds(suite: Suite) -> int:
    """How many `_works` there are."""
    models = prod(len(getattr(suite.training, name)) for name in Training.model_fields) if suite.training else 1
    return sum(models if workload.has_model else 1 for workload in suite.workloads)


def _trainable(cell: Cell) -> Cell:
    """Raises ValueError where no model can be trained on this problem; one that only generates needs no data."""
    if cell.workload is Workload.TRAIN and cell.training is not None and (why := cell.training.why_not(cell.problem)):
        raise ValueError(why)
    return cell


def _variants(method: Method) -> Iterator[dict[str, Scalar]]:
    for values in product(*method.params.values()):
        yield dict(zip(method.params, values, strict=True))
