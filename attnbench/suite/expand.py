"""Expanding a suite to its cells, sorted from small to large."""

from collections.abc import Iterator
from itertools import product
from math import prod

from pydantic import ValidationError

from attnbench.schema.cell import Batch, Cell, Workload
from attnbench.schema.condition import compile_condition
from attnbench.schema.errors import UsageError
from attnbench.schema.problem import Problem
from attnbench.schema.suite import MOST_PROCESSES, Axes, Suite
from attnbench.schema.training import Training
from attnbench.suite.load import SuiteError

MOST_CELLS = 100_000
# fields of a cell that say how it is run; their axes have the same names
_CONDITIONS = ("inputs", "recording", "scale", "allocator", "matmul_precision", "clock")


class TooManyCellsError(UsageError):
    """A suite whose axes have far too many combinations."""


def expand(suite: Suite) -> list[Cell]:
    """Return all cells of a suite that was resolved for its device; small lengths first, one shape after another.

    Raises TooManyCellsError before anything is built, and SuiteError where a combination of axes makes no problem,
    a `when` cannot be decided, or no cell is left.
    """
    count = _count(suite)
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


def _count(suite: Suite) -> int:
    """Count the cells before any `when`, without making them."""
    axes = suite.axes
    shape = (axes.N, axes.B or axes.tokens, axes.H, axes.D, axes.M, axes.kv_heads, axes.dtype, axes.causal, axes.padding)
    shapes = prod(len(axis) or 1 for axis in (*shape, *(getattr(axes, name) for name in _CONDITIONS)))
    models = prod(len(getattr(suite.training, name)) for name in Training.model_fields) if suite.training else 1
    works = sum(models if workload.has_model else 1 for workload in suite.workloads)
    return shapes * works * sum(prod(len(values) for values in method.params.values()) for method in suite.methods)


def _cells(suite: Suite) -> Iterator[Cell]:
    """Make the cells for which the `when` of their method holds. Raises ValueError."""
    methods = [(m, compile_condition(m.when, frozenset(m.params)) if m.when else None) for m in suite.methods]
    conditions = [
        dict(zip(_CONDITIONS, values, strict=True)) for values in product(*(getattr(suite.axes, name) for name in _CONDITIONS))
    ]
    for (problem, batch), work, condition in product(_problems(suite.axes), _works(suite), conditions):
        same = {"problem": problem, "batch": batch, "device": suite.device, **work, **condition}
        for method, when in methods:
            for values in product(*method.params.values()):
                params = dict(zip(method.params, values, strict=True))
                cell = Cell.model_validate({"method": method.name, "params": params, **same})
                if when is not None and not when(cell.values):
                    continue
                # a model that only generates needs no data
                if cell.workload is Workload.TRAIN and cell.training and (why := cell.training.why_not(problem)):
                    raise ValueError(why)
                yield cell


def _problems(axes: Axes) -> Iterator[tuple[Problem, Batch]]:
    """Make all shapes, with the rule for their batch; a batch that is searched for starts from 1."""
    for N, dtype, causal, padding, H, D in product(sorted(axes.N), axes.dtype, axes.causal, axes.padding, axes.H, axes.D):
        sizes = axes.B or tuple(max(1, tokens // N) for tokens in axes.tokens) or (1,)
        for size, M, kv_heads in product(sizes, axes.M or (D,), axes.kv_heads or (H,)):
            B, batch = (1, Batch.LARGEST) if size == "max" else (size, Batch.FIXED)
            same = {"dtype": dtype, "causal": causal, "padding": padding}
            yield Problem(B=B, H=H, N=N, D=D, M=M, kv_heads=kv_heads, **same), batch


def _works(suite: Suite) -> Iterator[dict[str, Workload | Training]]:
    """Give each workload, together with each model around the attention where the workload has one."""
    names = tuple(Training.model_fields)
    for workload in suite.workloads:
        if workload.has_model and suite.training is not None:
            for values in product(*(getattr(suite.training, name) for name in names)):
                yield {"workload": workload, "training": Training.model_validate(dict(zip(names, values, strict=True)))}
        else:
            yield {"workload": workload}
