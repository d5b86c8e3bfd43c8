"""From a method's name to its class: lazily, by entry point or `module:Class`.

The catalogue is read without importing any method; nothing here imports torch.
"""

import importlib.metadata
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

if TYPE_CHECKING:
    from attnbench.api import Attention
    from attnbench.schema.cell import Cell
    from attnbench.schema.noun import Scalar
    from attnbench.schema.problem import Problem

GROUP = "attnbench.impls"


class UnknownMethodError(LookupError):
    """No method has that name; the message says what is installed and what was probably meant."""


class UnsupportedError(ValueError):
    """The method says in its own words why it cannot do this."""


class MissingPackageError(ImportError):
    """A package that the method needs is not installed; the message is the pip line."""


@cache
def catalogue() -> dict[str, EntryPoint]:
    """All installed methods by name, without importing any of them."""
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=GROUP):
        if entry.name in found and found[entry.name].value != entry.value:
            raise LookupError(f"two methods are called {entry.name!r}: {found[entry.name].value} and {entry.value}")
        found[entry.name] = entry
    return dict(sorted(found.items()))


def find(name: str) -> EntryPoint:
    """The entry point of a method; a name with a colon, `my_module:MyAttention`, is its own address."""
    if ":" in name:
        return EntryPoint(name=name, value=name, group=GROUP)
    try:
        return catalogue()[name]
    except KeyError:
        meant = get_close_matches(name, catalogue(), n=1)
        hint = f"did you mean {meant[0]!r}? " if meant else ""
        raise UnknownMethodError(f"no method {name!r}; {hint}installed: {', '.join(catalogue())}") from None


def load(name: str) -> "type[Attention]":
    """Import one method. Raises UnknownMethodError, MissingPackageError, or whatever its own module raises."""
    entry = find(name)
    try:
        loaded: type[Attention] = entry.load()
    except ModuleNotFoundError as error:
        lacking = (error.name or "").partition(".")[0]
        if lacking in {"", entry.module.partition(".")[0]}:
            raise
        raise MissingPackageError(f"{name} needs the module {lacking!r}: pip install {lacking}") from error
    if not callable(getattr(loaded, "why_not", None)):
        raise TypeError(f"{entry.value} is not an attention: subclass attnbench.api.Attention")
    return loaded


def missing(method: "type[Attention]") -> tuple[str, ...]:
    """The requirements of a method that are not installed, as pip would be given them."""
    return tuple(text for text in method.requires if not _installed(Requirement(text)))


def _installed(requirement: Requirement) -> bool:
    version = installed_version(str(requirement))
    return version is not None and requirement.specifier.contains(version, prereleases=True)


def installed_version(requirement: str) -> str | None:
    """The version of a requirement's distribution that is installed, without importing it."""
    try:
        return importlib.metadata.version(Requirement(requirement).name)
    except importlib.metadata.PackageNotFoundError:
        return None


def build(name: str, problem: "Problem", **params: "Scalar") -> "Attention":
    """Build a method for a problem, on whichever device it runs.

    Raises UnknownMethodError, MissingPackageError, UnsupportedError (with the method's own reason), or
    TypeError where a parameter is not one of the method's.
    """
    from attnbench.schema.cell import Cell

    return _build([Cell(method=name, problem=problem, params=params, device=device) for device in ("cpu", "cuda")])


def build_for(cell: "Cell") -> "Attention":
    """Build the method of a cell for all that the cell states. Raises as `build` does."""
    return _build([cell])


def _build(cells: "list[Cell]") -> "Attention":
    """The method of these cells, unless it refuses them all."""
    name = cells[0].method
    method = load(name)
    if absent := missing(method):
        raise MissingPackageError(pip_line(name, absent))
    if all(reasons := [method.refusal(cell) for cell in cells]):
        raise UnsupportedError(f"{name}: {'; on CUDA: '.join(dict.fromkeys(map(str, reasons)))}")
    return method(cells[0].problem, **cells[0].params)


def pip_line(name: str, absent: tuple[str, ...]) -> str:
    """What to type to get what a method misses."""
    return f"{name} needs {', '.join(absent)}: pip install {' '.join(repr(a) if '>' in a else a for a in absent)}"
