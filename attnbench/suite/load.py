"""Loading a suite from a file or a dict: every error at once, each with its place, its key and what would be right."""

import importlib.resources
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from attnbench.schema.errors import UsageError, did_you_mean
from attnbench.schema.suite import Suite
from attnbench.suite import yaml_tree


class SuiteError(UsageError):
    """A suite file that is wrong, with one line for each error: `file:line:column: key: what, and what would be right`."""


@dataclass(frozen=True)
class _Source:
    """A file with its text as a tree, or what was given in its place and has no lines."""

    name: str
    data: Any
    tree: yaml_tree.Tree | None = None

    def order(self, path: yaml_tree.Path) -> tuple[int, int]:
        """Line and column of what stands at a path."""
        return self.tree.position(path) if self.tree else (0, 0)

    def line(self, path: yaml_tree.Path, message: str) -> str:
        """Write one line for something wrong at a path, which stands before the message."""
        place = ":".join(map(str, (self.name, *(self.order(path) if self.tree else ()))))
        return ": ".join(filter(None, (place, ".".join(map(str, path)), message)))


@dataclass(frozen=True)
class Loaded:
    """A suite, and where in its file each part of it stands."""

    suite: Suite
    source: _Source


def load(suite: "str | Path | Mapping[str, Any] | Suite") -> Loaded:
    """Load a suite by path, by the name of one that ships, or from a dict as its file would be. Raises SuiteError."""
    if isinstance(suite, Suite):
        return Loaded(suite, _Source("suite", {}))
    source = _Source("suite", suite) if isinstance(suite, Mapping) else _parsed(str(suite))
    if not isinstance(source.data, Mapping):
        raise SuiteError(source.line((), "a suite is a mapping of keys such as name, axes, methods"))
    try:
        loaded = Loaded(Suite.model_validate_json(json.dumps(source.data)), source)
    except ValidationError as error:
        lines = set()
        for each in error.errors():
            # a list whose every entry was refused counts as empty, which is no error of its own
            if each["type"] == "too_short" and each["input"]:
                continue
            path = _path(each)
            lines.add((*source.order(path), source.line(path, words(each))))
        raise SuiteError("\n".join(line for *_, line in sorted(lines))) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise SuiteError(source.line((), f"a suite holds numbers, texts, lists and dicts ({error})")) from None
    if wrong := list(_unknown_methods(loaded)):
        raise SuiteError("\n".join(wrong))
    return loaded


def _parsed(name: str) -> _Source:
    path = Path(name)
    try:
        found = path if path.suffix in {".yaml", ".yml"} or path.is_file() else shipped().get(name, path)
        if found.exists() and not found.is_file() and not found.is_dir():
            raise OSError(0, "it is a device or a pipe, which may never end")
        if found.stat().st_size > 4 * 2**20:
            raise SuiteError(f"{name}:1:1: the file has {found.stat().st_size:,} bytes; a suite has at most a few thousand")
        file, text = name if found is path else str(found), found.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        hint = did_you_mean(path.stem, shipped())
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise SuiteError(f"{name}: cannot read it ({why}); {hint}suites that ship: {', '.join(shipped())}") from None
    try:
        tree = yaml_tree.parse(text)
    except yaml_tree.TreeError as error:
        line, column = error.position
        raise SuiteError(f"{file}:{line}:{column}: {error}") from None
    return _Source(file, tree.data, tree)


def _unknown_methods(loaded: Loaded) -> Iterator[str]:
    """Report methods that `report` and `published` name and that the suite has on no device."""
    suite = loaded.suite
    named: dict[yaml_tree.Path, str] = {("report", "baselines", i): name for i, name in enumerate(suite.report.baselines)}
    named |= {("report", "labels", label): label.partition("(")[0] for label in suite.report.labels}
    for i, each in enumerate(suite.published):
        for part in ("of", "over", "less") if each.ours else ():
            if (side := getattr(each.ours, part)) is not None:
                named["published", i, "ours", part, "method"] = side.method
    for path, name in named.items():
        if name not in suite.names:
            hint, known = did_you_mean(name, suite.names), ", ".join(sorted(suite.names))
            yield loaded.source.line(path, f"{name!r} is not a method of this suite; {hint}it has {known}")


def shipped() -> dict[str, Path]:
    """Return the suites that come with the project, by name."""
    folder = Path(str(importlib.resources.files("attnbench_suites")))
    return {file.stem: file for file in sorted(folder.glob("*.yaml"))}


def _no_scalar(error: ErrorDetails) -> bool:
    """Say whether a list or a mapping was refused as a scalar, for which pydantic gives one error for each type."""
    return error["loc"][-1:] in {("bool",), ("int",), ("float",), ("str",)} and error["type"].endswith("_type")


def _path(error: ErrorDetails) -> yaml_tree.Path:
    """Return the path in the file: pydantic's own without the steps that exist only in its types."""
    steps = error["loc"][:-1] if _no_scalar(error) else error["loc"]
    return tuple(step for step in steps if not (isinstance(step, str) and step.endswith("]")))


def words(error: ErrorDetails) -> str:
    """Say what is wrong and what would be right."""
    given, context = error["input"], error.get("ctx", {})
    if _no_scalar(error):
        return f"write a number, a text, true or false; it is {given!r}"
    match error["type"]:
        case "extra_forbidden":
            model: Any = Suite
            for step in error["loc"][:-1]:
                if isinstance(step, str) and step in model.model_fields:
                    model = _model_in(model.model_fields[step].annotation) or model
            keys = sorted(model.model_fields)
            return f"unknown key; {did_you_mean(str(error['loc'][-1]), keys)}known here: {', '.join(keys)}"
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


def _model_in(annotation: Any) -> type[BaseModel] | None:  # noqa: ANN401 - any type annotation
    """Return the data class inside an annotation such as tuple[Method, ...] or dict[str, Override]."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part))), None)
