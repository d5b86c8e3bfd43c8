"""A picture of which key each query sees, by a method's own definition."""

import inspect
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from attnbench import registry
from attnbench.schema.cell import label
from attnbench.schema.errors import ArgumentError, UsageError
from attnbench.schema.noun import Scalar, in_words
from attnbench.schema.problem import DType, Problem
from attnbench.session.asked import one_of, unknown_parameters
from attnbench.store.files import write_named

if TYPE_CHECKING:
    from attnbench.api import Attention
    from attnbench.report.figures.weights import Picture

_LONGEST, _MOST_HEADS = 512, 16


class Shown:
    """A picture of weights; in a notebook, it is shown."""

    def __init__(self, picture: "Picture") -> None:
        self.picture = picture

    def image(self, form: str = "png") -> bytes:
        """Return the picture as png, svg or pdf. Raises ArgumentError."""
        from attnbench.report.figures.weights import image

        return image(self.picture, one_of(("png", "svg", "pdf"), form, "form"))

    def save(self, file: str | Path) -> None:
        """Write it, its form by its name. Raises ArgumentError, OSError."""
        write_named(Path(file), self.image(Path(file).suffix.removeprefix(".").lower()))

    def _repr_png_(self) -> bytes:
        return self.image()


def show(
    method: "str | type[Attention]",
    *,
    N: int = 64,
    heads: int = 4,
    width: int = 16,
    param: Mapping[str, Scalar] | None = None,
    causal: bool | None = None,
    seed: int = 0,
) -> Shown:
    """Draw the weights of a method, queries down, keys across, a panel for each head; `causal` None is where the method can.

    Raises UsageError before anything is computed, or where there are no weights.
    """
    # weights are a square of N for each head, and a picture has so many points and no more
    for name, value, most in (("N", N, _LONGEST), ("heads", heads, _MOST_HEADS), ("width", width, math.inf)):
        if value < 1:
            raise ArgumentError(name, value, "must be at least 1")
        if value > most:
            raise ArgumentError(name, value, f"more than a picture can show; at most {most}")
    params = dict(param or {})
    called, loaded = (method, _load(method)) if isinstance(method, str) else (method.__name__, method)
    # torch takes seconds to import; what was wrong so far is said before
    from attnbench.report.figures.weights import Picture
    from attnbench.workloads.describe import parameters
    from attnbench.workloads.weights import draw_weights

    for each, why in unknown_parameters(params, parameters(loaded)).items():
        raise ArgumentError("param", each, why)
    if not loaded.weighs:
        raise UsageError(f"{called} cannot be shown: its output sums no values by one weight for each query and key")
    refused: dict[str, str] = {}
    for is_causal in (True, False) if causal is None else (causal,):
        problem = Problem(H=heads, N=N, D=width, dtype=DType.FLOAT32, causal=is_causal)
        try:
            weights = draw_weights(method, problem, params, seed)[0].numpy()
            break
        except registry.UnsupportedError as error:
            refused[str(error).removeprefix(f"{called}: ")] = problem.mask
        except Exception as error:  # noqa: BLE001 - whatever a plugin raises
            raise UsageError(f"{called} cannot be shown: {in_words(error)}") from None
    else:
        reasons = [f"{mask}: {reason}" for reason, mask in refused.items()] if len(refused) > 1 else [*refused]
        raise UsageError(f"{called} cannot be shown: {'; '.join(reasons)}")
    # the problem, and the parameters that nobody gave
    defaults = {name: each.default for name, each in inspect.signature(loaded).parameters.items() if name not in params}
    stated = [f"{name}={value}" for name, value in defaults.items() if isinstance(value, bool | int | float | str)]
    left = [name for name, value in defaults.items() if value is None]
    about = [f"{problem.mask}, N={N}, H={heads}, D={width}"]
    about += [f"queries and keys N(0, 1), seed {seed}"]
    about += [f"by default {', '.join(stated)}"] if stated else []
    about += [f"left to the method: {', '.join(left)}"] if left else []
    return Shown(Picture(label(called, params), "; ".join(about), weights, problem.causal))


def _load(name: str) -> "type[Attention]":
    registry.look_here()
    try:
        method = registry.load(name)
    except registry.UnknownMethodError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a plugin raises when it is imported
        raise UsageError(f"{name} cannot be imported: {type(error).__name__}: {in_words(error)}") from None
    if absent := registry.missing(method):
        raise UsageError(registry.pip_line(name, absent))
    return method
