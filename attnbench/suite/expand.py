"""Expanding a suite to its cells, bundle by bundle, sorted from small to large."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from attnbench.schema.cell import COMPILE, CONDITIONS, PACKED, Batch, Cell, Workload, plain_name
from attnbench.schema.condition import compile_condition
from attnbench.schema.errors import UsageError
from attnbench.schema.model import TIMED, Model
from attnbench.schema.problem import Problem
from attnbench.schema.suite import MOST_PROCESSES, Method, Suite
from attnbench.schema.training import Training
from attnbench.suite.load import SuiteError, words
from attnbench.suite.models import ModelError, sizes_of

MOST_CELLS = 100_000
"""The most cells of one run. A suite may have more, of which shares are measured."""


class TooManyCellsError(UsageError):
    """A run of far too many cells."""


class UnfitError(SuiteError):
    """No cells can be made of a suite; `path` is the key in its file that says so, and of a method with a `when` the method."""

    def __init__(self, suite: Suite, path: tuple[str, ...], why: str, method: Method | None = None) -> None:
        super().__init__(f"suite {suite.name!r}: {'.'.join(path)}{': ' * bool(path)}{why}")
        self.path, self.why, self.method = path, why, method
        self.kind: Literal["cpu", "cuda"] = "cuda" if suite.device.startswith("cuda") else "cpu"


def expand(suite: Suite, numbers: Sequence[int] | None = None) -> list[Cell]:
    """Return the cells of a suite that was resolved for its device, small lengths first; or those of some of its bundles.

    Raises TooManyCellsError before anything is built, and UnfitError where a combination of axes makes no problem,
    a `when` cannot be decided, or no cell of the suite is left.
    """
    bundles = Bundles(suite)
    wanted = range(len(bundles)) if numbers is None else numbers
    if (count := len(wanted) * bundles.most) > MOST_CELLS:
        shares = f"; measure shares of it, as --shard 1/{-(-count // MOST_CELLS)}" if count <= 1000 * MOST_CELLS else ""
        raise TooManyCellsError(f"suite {suite.name!r} has {count:,} cells; at most {MOST_CELLS:,} make sense in a run{shares}")
    cells = bundles.cells(wanted)
    if (processes := len(cells) * suite.replicates) > MOST_PROCESSES:
        raise TooManyCellsError(
            f"suite {suite.name!r} has {len(cells):,} cells x {suite.replicates:,} replicates, {processes:,} processes; "
            f"at most {MOST_PROCESSES:,} make sense in a run"
        )
    if not cells and len(wanted) == len(bundles):
        raise UnfitError(suite, (), "no cell is left; look at its axes and at every `when`")
    return cells


class Bundles:
    """The bundles of a suite: each has the cells of one shape, workload and set of conditions, which are compared.

    A bundle is made when it is asked for, so that a suite may have millions of them.
    """

    def __init__(self, suite: Suite) -> None:
        axes, self._suite = suite.axes, suite
        self._works = {work: self._own_axes(work) for work in suite.workloads}
        batches, M, kv_heads = axes.B or axes.tokens or (1,), axes.M or (None,), axes.kv_heads or (None,)
        shape = (sorted(axes.N), axes.dtype, axes.causal, axes.padding, axes.H, axes.D, batches, M, kv_heads)
        conditions = [_once(getattr(axes, name)) for name in CONDITIONS]
        counts = [prod(map(len, each.values())) for each in self._works.values()]
        # a value that is listed twice counts once
        self._axes = [*map(_once, shape), range(sum(counts)), *conditions]
        self._methods = [(m, compile_condition(m.when, frozenset(m.params)) if m.when else None) for m in suite.methods]
        self._forms = list(product(_once(axes.packed), _once(axes.compile)))
        self.most = len(self._forms) * sum(prod(len(values) for values in m.params.values()) for m in suite.methods)
        """The most cells that one has; a `when` leaves fewer."""

    def __len__(self) -> int:
        return prod(map(len, self._axes))

    def __getitem__(self, number: int) -> list[Cell]:
        """Make the cells of one for which the `when` of their method holds, counted from 0. Raises UnfitError."""
        N, dtype, causal, padding, H, D, size, M, kv_heads, work, *conditions = _picked(self._axes, number)
        batch, axes = Batch.FIXED, self._suite.axes
        tokens = axes.tokens
        if size == "max":
            size, batch = 1, Batch.LARGEST
        elif tokens:
            size, earlier = max(1, size // N), {max(1, each // N) for each in tokens[: tokens.index(size)]}
            if size in earlier:
                # fewer or more tokens make the same bundle
                return []
        problem = Problem.model_construct(
            B=size, H=H, N=N, D=D, M=M or D, kv_heads=kv_heads or H, dtype=dtype, causal=causal, padding=padding
        )
        workload, more = self._workload(work)
        if isinstance(model := more.get("model"), Model):
            if (H, D, M, kv_heads) != tuple(
                values[0] if values else None for values in (axes.H, axes.D, axes.M, axes.kv_heads)
            ):
                # its own config says its heads: other heads of bare attentions make the same bundle
                return []
            with self._about("model"):
                problem = _in_model(problem, model)
        same: dict[str, Any] = {"problem": problem, "batch": batch, "device": self._suite.device, "workload": workload, **more}
        same |= dict(zip(CONDITIONS, conditions, strict=True))
        found: dict[str, Cell] = {}
        for method, when in self._methods:
            plain = plain_name(method.name)
            own = method.name[len(plain) :]
            for (packs, compiles), *values in product(self._forms, *method.params.values()):
                params = dict(zip(method.params, values, strict=True))
                # a form that the name asks for is not put on once more
                name = plain + PACKED * (packs or PACKED in own) + COMPILE * (compiles or COMPILE in own)
                cell = {"method": name, "params": params, **same}
                if when is not None:
                    with self._about("methods", "when", method=method):
                        if not when(Cell.model_construct(**cell).values):
                            continue
                with self._about("axes"):
                    if not found:
                        # judged here, for a `when` may leave no cell of a shape that makes no problem
                        cell["problem"] = same["problem"] = Problem.model_validate(dict(problem))
                    found.setdefault(f"{name} {sorted(params.items())!r}", Cell.model_validate(cell))
        if found:
            self._refuse_odd_models(next(iter(found.values())))
        return list(found.values())

    def cells(self, numbers: Iterable[int]) -> list[Cell]:
        """Make the cells of some, however many they are. Raises UnfitError where there can be none."""
        return [cell for number in numbers for cell in self[number]]

    def _refuse_odd_models(self, cell: Cell) -> None:
        """Raise UnfitError where one of both attentions of a hybrid would have no layer, or a model cannot learn its task."""
        model, training, hybrids = cell.model, cell.training, []
        if model:
            hybrids.append((("model", "own_every"), model.own_every, sizes_of(model.config).layers))
        if training:
            hybrids.append((("training", "softmax_every"), training.softmax_every, training.layers))
        for path, every, layers in hybrids:
            if every == 1 or every > layers:
                no = f"with {path[1]}={every}, {layers} layers are no hybrid; set 0, or from 2 to the number of layers"
                raise UnfitError(self._suite, path, no)
        # a model that only generates needs no data
        if training and cell.workload is Workload.TRAIN and (why := training.why_not(cell.problem)):
            raise UnfitError(self._suite, ("training",), why)

    @contextmanager
    def _about(self, *path: str, method: Method | None = None) -> Iterator[None]:
        """Say of which key it is that something is wrong."""
        try:
            yield
        except (ValueError, ModelError) as error:
            why = str(error)
            if isinstance(error, ValidationError):
                first = error.errors()[0]
                why = ": ".join([*map(str, first["loc"][-1:]), words(first)])
            raise UnfitError(self._suite, path, why, method) from None

    def _workload(self, number: int) -> tuple[Workload, dict[str, object]]:
        """Give the workload of that number, together with what only its cells have: a model, or how many tokens are new."""
        for workload, axes in self._works.items():
            count = prod(map(len, axes.values()))
            if number < count:
                picked = dict(zip(axes, _picked(list(axes.values()), number), strict=True))
                if not picked or workload is Workload.VERIFY:
                    return workload, picked
                if workload.has_whole_model:
                    return workload, {"model": Model.model_validate(picked)}
                return workload, {"training": Training.model_validate(picked)}
            number -= count
        raise IndexError(number)

    def _own_axes(self, workload: Workload) -> dict[str, Sequence[Any]]:
        """Return the axes that only cells of this workload have."""
        if workload is Workload.VERIFY:
            return {"new_tokens": _once(self._suite.axes.new_tokens)}
        about = self._suite.training if workload.has_task else self._suite.model if workload.has_whole_model else None
        if about is None:
            return {}
        timed_model = workload.has_whole_model and workload.is_timed
        return {name: _once(getattr(about, name)) for name in (TIMED if timed_model else type(about).model_fields)}


def _in_model(problem: Problem, model: Model) -> Problem:
    """Return the problem of a layer's attention. Raises ValueError where the model cannot have it."""
    sizes = sizes_of(model.config)
    if model.weights and model.learnt:
        raise ValueError(f"learnt={model.learnt} is of a model without weights; leave out one of both")
    if model.weights and not (Path(model.weights) / "config.json").is_file():
        # transformers would look for it in the hub, for minutes
        raise ValueError(f"weights={model.weights!r} is no folder with a config.json, as transformers writes it beside weights")
    if model.weights and sizes_of(model.weights) != sizes:
        raise ValueError(f"weights={model.weights!r} are of a model of other sizes than {model.config}")
    if not problem.causal:
        raise ValueError(f"the layers of {model.config} are causal; set causal: true")
    if problem.padding:
        raise ValueError("whole models are measured without padding")
    if sizes.positions < problem.N:
        raise ValueError(f"{model.config} has {sizes.positions} positions, which are fewer than N={problem.N}")
    heads = {"H": sizes.heads, "kv_heads": sizes.kv_heads, "D": sizes.head_dim, "M": sizes.head_dim}
    return problem.model_copy(update=heads)


def _once(values: Sequence[Any]) -> Sequence[Any]:
    return list(dict.fromkeys(values))


def _picked(axes: Sequence[Sequence[Any]], number: int) -> list[Any]:
    """Pick the combination of that number, of which the last axis changes fastest."""
    picked = []
    for axis in reversed(axes):
        number, place = divmod(number, len(axis))
        picked.append(axis[place])
    return picked[::-1]
