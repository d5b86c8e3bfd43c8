"""Reading YAML as plain data with the position of every key and value.

Positions are (line, column), 1-based, by path. Hostile files are refused: aliases (YAML bombs consist of them), tags of
other types, duplicate keys, deep nesting, large files.
"""

import math
import re
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

Path = tuple[str | int, ...]
Position = tuple[int, int]
# the parser is pure Python and reads about 60 kB a second
_MAX_BYTES = 2**16
_MAX_DEPTH = 20
_TAG = "tag:yaml.org,2002:"
_KNOWN = {"map", "seq", "str", "int", "float", "bool", "null", "timestamp"}
# ruamel alone takes four seconds for 60 kB of brackets before it gives up
_TOO_DEEP = re.compile(r"[\[{(]{200}|(?:- ){200}")


class TreeError(ValueError):
    """YAML that cannot be read or is not allowed, and where."""

    def __init__(self, message: str, position: Position = (1, 1)) -> None:
        super().__init__(message)
        self.position = position


@dataclass
class Tree:
    """Plain data, and the position of each part of it."""

    data: Any
    positions: dict[Path, Position]

    def position(self, path: Path) -> Position:
        """Return the position of a path, or of the nearest part above it that is in the file."""
        while path and path not in self.positions:
            path = path[:-1]
        return self.positions.get(path, (1, 1))


def parse(text: str) -> Tree:
    """Read one YAML document. Raises TreeError."""
    if len(text) > _MAX_BYTES:
        raise TreeError(f"the file has {len(text):,} characters; a suite has at most {_MAX_BYTES:,}")
    if _TOO_DEEP.search(text):
        raise TreeError("nested too deeply")
    try:
        root = YAML(typ="safe", pure=True).compose(text)
    except RecursionError:
        raise TreeError("nested too deeply") from None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise TreeError(f"not YAML: {error.problem or error.context}", place) from None
    # an escape such as "\UFFFFFFFF" leaves the parser as a plain OverflowError
    except (YAMLError, ValueError, OverflowError) as error:
        raise TreeError(f"not YAML: {str(error).partition(chr(10))[0]}") from None
    positions: dict[Path, Position] = {}
    return Tree(None if root is None else _plain(root, (), positions, set()), positions)


def _plain(node: Node, path: Path, positions: dict[Path, Position], seen: set[int]) -> Any:  # noqa: ANN401 - plain data of any shape
    here = (node.start_mark.line + 1, node.start_mark.column + 1)
    positions.setdefault(path, here)
    if id(node) in seen:
        raise TreeError("aliases (*name) are not used in suites; write the value out", here)
    seen.add(id(node))
    if len(path) > _MAX_DEPTH:
        raise TreeError("nested too deeply", here)
    tag = str(node.tag)
    if not tag.startswith(_TAG) or tag.removeprefix(_TAG) not in _KNOWN:
        raise TreeError(f"the tag {tag} is not used in suites", here)
    if isinstance(node, SequenceNode):
        return [_plain(item, (*path, i), positions, seen) for i, item in enumerate(node.value)]
    if isinstance(node, ScalarNode):
        return _scalar(tag.removeprefix(_TAG), node.value, here)
    assert isinstance(node, MappingNode)
    data: dict[str, Any] = {}
    for key, value in node.value:
        here = (key.start_mark.line + 1, key.start_mark.column + 1)
        if not isinstance(key, ScalarNode):
            raise TreeError("a key must be a plain word", here)
        # `on` is a word here, as it is in YAML 1.2
        name = str(key.value)
        if name in data:
            raise TreeError(f"the key {name!r} is written twice", here)
        positions[(*path, name)] = here
        data[name] = _plain(value, (*path, name), positions, seen)
    return data


def _scalar(kind: str, text: str, here: Position) -> Any:  # noqa: ANN401 - bool, number, text or None
    """Read a scalar by the core rules of YAML 1.2."""
    try:
        match kind:
            case "null":
                return None
            case "bool":
                return {"true": True, "false": False}[text.lower()]
            case "int":
                return int(text.replace("_", ""), 0) if text.lower().lstrip("+-")[:2] in {"0x", "0o", "0b"} else int(text)
            case "float":
                number = float(text.replace("_", ""))
                if math.isfinite(number):
                    return number
            case _:
                return text
    except (KeyError, ValueError):
        pass
    raise TreeError(f"{text!r} is not {'true or false' if kind == 'bool' else 'a finite number'}", here)
