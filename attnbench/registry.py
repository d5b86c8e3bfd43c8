"""Finding the class of a method by its name: by entry point, `module:Class` or `path/to/file.py:Class`.

The list of methods is read without importing any of them, and nothing here imports torch.
"""

import importlib
import importlib.util
import shlex
import sys
from collections.abc import Callable
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, cast

from packaging.requirements import Requirement

from attnbench.measure.environment import version
from attnbench.schema.cell import COMPILE, PACKED, plain_name
from attnbench.schema.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from attnbench.api import Attention
    from attnbench.schema.cell import Cell
    from attnbench.schema.noun import Scalar
    from attnbench.schema.problem import Problem

GROUP = "attnbench.impls"


class UnknownMethodError(UsageError, LookupError):
    """There is no method of that name, or it names no method, or two; the message says what was probably meant, or which."""


class UnsupportedError(UsageError, ValueError):
    """The method cannot do this; the message gives its own reason."""


class MissingPackageError(UsageError, ImportError):
    """A package that the method needs is not installed; the message is the pip line."""


@cache
def catalogue() -> dict[str, EntryPoint]:
    """Return all installed methods by name, without importing any of them."""
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=GROUP):
        if entry.name in found and found[entry.name].value != entry.value:
            both = f"{found[entry.name].value} and {entry.value}"
            raise UnknownMethodError(f"two methods are called {entry.name!r}: {both}; uninstall the package of one")
        found[entry.name] = entry
    return dict(sorted(found.items()))


def find(name: str) -> EntryPoint:
    """Return the entry point of a method; `my_module:MyAttention` and `my.py:MyAttention` are entry points of their own."""
    name = plain_name(name)
    if ":" in name:
        return EntryPoint(name=name, value=name, group=GROUP)
    try:
        return catalogue()[name]
    except KeyError:
        raise UnknownMethodError(no_method(name)) from None


def is_known(name: str) -> bool:
    """Say whether a method of that name is installed, whatever form of it the name asks for."""
    return plain_name(name) in catalogue()


def no_method(name: str) -> str:
    """Say that there is no such method, with the three nearest names and how to list all."""
    meant = did_you_mean(name, catalogue(), 3)
    return f"no method {name!r}; {meant}attnbench methods lists the {len(catalogue())} there are; one's own: module:Class"


def load(name: str) -> "type[Attention]":
    """Import one method. Raises UnknownMethodError, MissingPackageError, or whatever its own module raises."""
    if plain_name(name) != name:
        from attnbench.forms import compiled, packed

        form = compiled if name.endswith(COMPILE) else packed
        return form(load(name.removesuffix(COMPILE if form is compiled else PACKED)))
    entry = find(name)
    found = _addressed(name) if ":" in name else _imported(name, entry.module, entry.load)
    if not _is_attention(found):
        raise UnknownMethodError(f"{entry.value} is not an attention: subclass attnbench.api.Attention")
    return cast("type[Attention]", found)


def _addressed(address: str) -> object:
    """Import what `module:Class` or `file.py:Class` names. Raises UnknownMethodError."""
    place, _, path = address.rpartition(":")
    if place.endswith(".py"):
        module = _imported(address, "", partial(_module_in, Path(place)))
    else:
        try:
            module = _imported(address, place, partial(importlib.import_module, place))
        except ModuleNotFoundError as error:
            raise UnknownMethodError(f"there is no module {error.name!r}, here or installed") from error
    if not hasattr(module, path):
        kept = [name for name, value in vars(module).items() if _is_attention(value) and name != "Attention"]
        has = f"it has {', '.join(kept)}" if kept else "it has no attention: subclass attnbench.api.Attention"
        raise UnknownMethodError(f"{place} has no {path!r}; {did_you_mean(path, kept, 3)}{has}")
    return getattr(module, path)


def own_module(name: str) -> str:
    """Return the name that the module of a method has once it is loaded. Raises UnknownMethodError."""
    place, colon, _ = name.rpartition(":")
    if not colon:
        return find(name).module
    return _name_of(Path(place)) if place.endswith(".py") else place


def look_here() -> None:
    """Let Python find modules in the current folder, before installed packages but after the standard library.

    Where torch is imported already, a file named random.py or torch.py replaces nothing.
    """
    if (here := str(Path.cwd())) not in sys.path:
        first = next((i for i, folder in enumerate(sys.path) if "site-packages" in folder), len(sys.path))
        sys.path.insert(first, here)


def _imported(name: str, module: str, load: Callable[[], object]) -> object:
    """Load a method. Raises MissingPackageError where another module than the method's own is absent."""
    try:
        return load()
    except ModuleNotFoundError as error:
        lacking = (error.name or "").partition(".")[0]
        if lacking in {"", module.partition(".")[0]}:
            raise
        raise MissingPackageError(f"{name} needs the module {lacking!r}: pip install {lacking}") from error


def _is_attention(found: object) -> bool:
    return callable(getattr(found, "why_not", None))


def _module_in(file: Path) -> ModuleType:
    """Import a file as a module; it can import what lies beside it, as a script can."""
    own = _name_of(file)
    if own not in sys.modules:
        spec = importlib.util.spec_from_file_location(own, file)
        if not file.is_file() or spec is None or spec.loader is None:
            raise UnknownMethodError(f"there is no file {file}")
        sys.path.append(str(file.resolve().parent))
        # a dataclass looks its own module up while that is imported
        sys.modules[own] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(sys.modules[own])
        except BaseException:
            del sys.modules[own]
            raise
    return sys.modules[own]


def _name_of(file: Path) -> str:
    """Return a module name that no other module has, for a file may be called random.py."""
    return f"file {file.resolve()}"


def missing(method: "type[Attention]") -> tuple[str, ...]:
    """Return the requirements of a method that are not installed, as pip takes them."""
    absent = []
    for text in method.requires:
        found = installed_version(text)
        if found is None or not Requirement(text).specifier.contains(found, prereleases=True):
            absent.append(text)
    return tuple(absent)


def installed_version(requirement: str) -> str | None:
    """Return the installed version of a requirement's package, without importing it; None where there is none."""
    return version(Requirement(requirement).name)


def address_of(method: type) -> str:
    """Return the address by which another process finds a class. Raises UnknownMethodError where it cannot."""
    module, name = method.__module__, method.__qualname__
    file = getattr(sys.modules.get(module), "__file__", None)
    if not _is_attention(method):
        raise UnknownMethodError(f"{name} is not an attention: subclass attnbench.api.Attention")
    if "." in name or (module == "__main__" and file is None):
        raise UnknownMethodError(f"{name} was written in a session or within a function; put it into a file of its own")
    is_file = module == "__main__" or (file is not None and module == _name_of(Path(file)))
    return f"{file if is_file else module}:{name}"


def build(name: "str | type[Attention]", problem: "Problem", **params: "Scalar") -> "Attention":
    """Build a method, by its name or its class, for a problem, if it runs on the CPU or on CUDA.

    Raises UnknownMethodError, MissingPackageError, UnsupportedError (with the method's own reason), or the method's own
    TypeError or ValueError where a parameter is not one of its own, or not what it takes.
    """
    from attnbench.schema.cell import Cell

    method, called = (load(name), name) if isinstance(name, str) else (name, name.__name__)
    return _build(method, [Cell(method=called, problem=problem, params=params, device=device) for device in ("cpu", "cuda")])


def build_for(cell: "Cell") -> "Attention":
    """Build the method of a cell, if it can run that very cell. Raises as `build` does."""
    return _build(load(cell.method), [cell])


def _build(method: "type[Attention]", cells: "list[Cell]") -> "Attention":
    """Build the method of these cells, unless it refuses them all."""
    name = cells[0].method
    if absent := missing(method):
        raise MissingPackageError(pip_line(name, absent))
    if all(reasons := [method.refusal(cell) for cell in cells]):
        raise UnsupportedError(f"{name}: {'; on CUDA: '.join(dict.fromkeys(map(str, reasons)))}")
    return method(cells[0].problem, **cells[0].params)


def pip_line(name: str, absent: tuple[str, ...]) -> str:
    """Return the pip command that installs what a method lacks."""
    return f"{name} needs {', '.join(absent)}: pip install {shlex.join(absent)}"
