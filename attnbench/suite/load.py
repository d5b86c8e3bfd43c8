"""From a suite file to a Suite: every error at once, each with file, line, column, key and what would be right."""

import importlib.resources
import json
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from attnbench.schema.suite import Suite
from attnbench.suite import yaml_tree

SHIPPED = "attnbench_suites"


class SuiteError(ValueError):
    """One line for each thing that is wrong: `file:line:column: key: what, and what would be right`."""


@dataclass(frozen=True)
class Loaded:
    """A suite, and where in which file each part of it stands."""

    suite: Suite
    file: str
    tree: yaml_tree.Tree

    def error(self, path: yaml_tree.Path, message: str) -> str:
        """One line for something wrong at a path, in the form of all others."""
        line, column = self.tree.position(path)
        return f"{self.file}:{line}:{column}: {'.'.join(map(str, path))}: {message}"


def load(name: str) -> Loaded:
    """Load a suite by path, or by the name of one that ships; raises SuiteError."""
    file, text = _read(name)
    try:
        tree = yaml_tree.parse(text)
    except yaml_tree.TreeError as error:
        line, column = error.position
        raise SuiteError(f"{file}:{line}:{column}: {error}") from None
    if not isinstance(tree.data, dict):
        raise SuiteError(f"{file}:1:1: a suite is a mapping of keys such as name, axes, methods")
    try:
        loaded = Loaded(Suite.model_validate_json(json.dumps(tree.data)), file, tree)
    except ValidationError as error:
        lines = sorted({(*tree.position(_path(e)), _message(e)) for e in error.errors() if not _follows(e)})
        raise SuiteError("\n".join(f"{file}:{line}:{column}: {message}" for line, column, message in lines)) from None
    if wrong := list(_strangers(loaded)):
        raise SuiteError("\n".join(wrong))
    return loaded


def _strangers(loaded: Loaded) -> Iterator[str]:
    """Methods that `published` speaks of and no device has: a suite that was resolved for one knows only its own."""
    suite = loaded.suite
    names = suite.names
    for i, each in enumerate(suite.published):
        for part in ("of", "over", "less") if each.ours else ():
            side = getattr(each.ours, part)
            if side is not None and side.method not in names:
                meant = get_close_matches(side.method, names, n=1)
                hint = f"did you mean {meant[0]!r}? " if meant else ""
                known = ", ".join(sorted(names))
                words = f"{side.method!r} is none of the suite's methods; {hint}they are {known}"
                yield loaded.error(("published", i, "ours", part, "method"), words)


def shipped() -> dict[str, Path]:
    """The suites that come with the project, by name."""
    folder = Path(str(importlib.resources.files(SHIPPED)))
    return {file.stem: file for file in sorted(folder.glob("*.yaml"))}


def _read(name: str) -> tuple[str, str]:
    path = Path(name)
    try:
        found = path if path.suffix in {".yaml", ".yml"} or path.is_file() else shipped().get(name, path)
        if found.exists() and not found.is_file() and not found.is_dir():
            raise OSError(0, "it is a device or a pipe, which may never end")
        if found.stat().st_size > 4 * 2**20:
            raise SuiteError(f"{name}:1:1: the file has {found.stat().st_size:,} bytes; a suite has at most a few thousand")
        return (name if found is path else str(found)), found.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        if isinstance(error, SuiteError):
            raise
        meant = get_close_matches(path.stem, shipped(), n=1)
        hint = f"did you mean {meant[0]!r}? " if meant else ""
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise SuiteError(f"{name}: cannot read it ({why}); {hint}suites that ship: {', '.join(shipped())}") from None


def _follows(error: ErrorDetails) -> bool:
    """Whether it only repeats another: a list whose every entry was refused counts as empty."""
    return error["type"] == "too_short" and bool(error["input"])


def _no_scalar(error: ErrorDetails) -> bool:
    """One of the four refusals, one a type, of what is neither number nor text nor truth value."""
    return error["loc"][-1:] in {("bool",), ("int",), ("float",), ("str",)} and error["type"].endswith("_type")


def _path(error: ErrorDetails) -> yaml_tree.Path:
    """A path into the file: pydantic's own, less the steps that exist only in its types."""
    steps = error["loc"][:-1] if _no_scalar(error) else error["loc"]
    return tuple(step for step in steps if not (isinstance(step, str) and step.endswith("]")))


def _message(error: ErrorDetails) -> str:
    path = ".".join(str(step) for step in _path(error))
    return f"{path}: {words(error)}" if path else words(error)


def words(error: ErrorDetails) -> str:
    """What is wrong and what would be right."""
    given, context = error["input"], error.get("ctx", {})
    if _no_scalar(error):
        return f"write a number, a text, true or false; it is {given!r}"
    match error["type"]:
        case "extra_forbidden":
            keys = sorted(_fields_at(error["loc"][:-1]))
            meant = get_close_matches(str(error["loc"][-1]), keys, n=1)
            return f"unknown key; {f'did you mean {meant[0]!r}? ' if meant else ''}known here: {', '.join(keys)}"
        case "missing":
            return "this key is missing"
        case "too_short":
            return "this list is empty; write at least one"
        case "enum" | "literal_error":
            return f"{given!r} is not known; write one of {context.get('expected')}"
        case "value_error":
            return str(context.get("error", error["msg"]))
        case "string_pattern_mismatch":
            return f"{given!r} does not fit; it must match {context.get('pattern')}"
    return f"{error['msg'][0].lower()}{error['msg'][1:]}; it is {given!r}"


def _fields_at(path: tuple[int | str, ...]) -> set[str]:
    """The keys that a place in a suite file knows."""
    model: Any = Suite
    for step in path:
        if isinstance(step, str) and isinstance(model, type) and issubclass(model, BaseModel) and step in model.model_fields:
            model = _model_in(model.model_fields[step].annotation) or model
    return set(model.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:  # noqa: ANN401 - any type annotation
    """The data class inside an annotation such as tuple[Method, ...] or dict[str, Override]."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part))), None)
