"""`attnbench show`: a picture of which key each query sees, by a method's own definition."""

import inspect
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from attnbench import registry
from attnbench.cli.errors import UsageError
from attnbench.cli.outs import write_out
from attnbench.cli.select import is_text, no_parameter, takes
from attnbench.schema.cell import Cell, label
from attnbench.schema.noun import Scalar, in_words
from attnbench.schema.problem import DType, Problem

if TYPE_CHECKING:
    from attnbench.api import Attention

FORMATS = ("png", "svg")
_LONGEST, _MOST_HEADS = 512, 16


@dataclass(frozen=True)
class Options:
    """What the command line said; `causal` None: where the method can."""

    method: str
    N: int
    heads: int
    width: int
    params: tuple[str, ...]
    causal: bool | None
    seed: int
    out: Path | None


def show(options: Options) -> None:
    """Write the picture and say where; raises UsageError before anything is computed, or where there are no weights."""
    out = options.out or Path(f"{options.method.replace(':', '.')}.png")
    form = _form(out)
    _refuse_large(options)
    params = dict(parameter(text) for text in options.params)
    method = _method(options.method, params)
    problem = _problem(options, method, params)
    write_out(out, _picture(options, method, problem, params, form))


def _form(out: Path) -> str:
    form = out.suffix.removeprefix(".").lower()
    if form not in FORMATS:
        raise UsageError(f"--out {out}: a picture is .png or .svg")
    return form


def _refuse_large(options: Options) -> None:
    """Weights are a square of N for each head, and a picture has so many points and no more."""
    for name, value, most in (("N", options.N, _LONGEST), ("heads", options.heads, _MOST_HEADS)):
        if value > most:
            raise UsageError(f"--{name} {value}: more than a picture can show; at most {most}")


def parameter(text: str) -> tuple[str, Scalar]:
    """`stride=8`: a number, true or false, or else a word."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier() or not is_text(value):
        raise UsageError(f"--param {text}: write it as name=value, for example --param stride=8")
    try:
        read = json.loads(value)
    except ValueError:
        return name, value
    return name, read if isinstance(read, bool | int | float) else value


def _method(name: str, params: dict[str, Scalar]) -> "type[Attention]":
    # torch takes seconds to import; what was wrong so far is said before
    from attnbench.workloads.describe import parameters

    registry.look_here()
    try:
        method = registry.load(name)
    except registry.UnknownMethodError as error:
        raise UsageError(str(error)) from None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a plugin raises when it is imported
        raise UsageError(f"{name} cannot be imported: {type(error).__name__}: {in_words(error)}") from None
    if absent := registry.missing(method):
        raise UsageError(registry.pip_line(name, absent))
    known = parameters(method)
    if strange := [each for each in params if not takes(known, each)]:
        raise UsageError(f"--param {strange[0]}: {no_parameter(strange[0], known)}")
    return method


def _problem(options: Options, method: "type[Attention]", params: dict[str, Scalar]) -> Problem:
    """Causal where that was asked for, or was not and the method can. Raises UsageError with the method's own refusal."""
    masks = (True, False) if options.causal is None else (options.causal,)
    sizes = {"H": options.heads, "N": options.N, "D": options.width, "dtype": DType.FLOAT32}
    problems = [Problem(**sizes, causal=causal) for causal in masks]
    reasons = [_refusal(options.method, method, problem, params) for problem in problems]
    for problem, reason in zip(problems, reasons, strict=True):
        if reason is None:
            return problem
    said = (
        dict.fromkeys(reasons)
        if len(set(reasons)) == 1
        else [f"{'causal' if p.causal else 'non-causal'}: {reason}" for p, reason in zip(problems, reasons, strict=True)]
    )
    raise UsageError(f"{options.method} cannot be shown: {'; '.join(map(str, said))}")


def _refusal(name: str, method: "type[Attention]", problem: Problem, params: dict[str, Scalar]) -> str | None:
    """None where some device can run it: the reference, which is what is shown, runs on any."""
    cells = [Cell(method=name, problem=problem, params=params, device=device) for device in ("cpu", "cuda")]
    try:
        reasons = [method.refusal(cell) for cell in cells]
    except (TypeError, ValueError, OverflowError) as error:
        return in_words(error)
    return "; on CUDA: ".join(dict.fromkeys(map(str, reasons))) if all(reasons) else None


def _picture(options: Options, method: "type[Attention]", problem: Problem, params: dict[str, Scalar], form: str) -> bytes:
    # as above, and matplotlib
    from attnbench.report.figures.weights import Picture, image
    from attnbench.workloads.weights import draw_weights

    try:
        weights = draw_weights(options.method, problem, params, options.seed)[0].numpy()
    except Exception as error:  # noqa: BLE001 - whatever a plugin raises
        raise UsageError(f"{options.method} cannot be shown: {in_words(error)}") from None
    return image(
        Picture(label(options.method, params), _about(options, method, problem, params), weights, problem.causal), form
    )


def _about(options: Options, method: "type[Attention]", problem: Problem, params: dict[str, Scalar]) -> str:
    """The problem, and the parameters that nobody gave."""
    defaults = {name: each.default for name, each in inspect.signature(method).parameters.items() if name not in params}
    known = {name: value for name, value in defaults.items() if isinstance(value, bool | int | float | str)}
    left = [name for name, value in defaults.items() if value is None]
    mask = "causal" if problem.causal else "non-causal"
    words = [f"{mask}, N={problem.N}, H={problem.H}, D={problem.D}", f"queries and keys N(0, 1), seed {options.seed}"]
    by_default = ", ".join(f"{name}={value}" for name, value in known.items())
    words += [f"by default {by_default}"] if known else []
    return "; ".join([*words, *([f"left to the method: {', '.join(left)}"] if left else [])])
