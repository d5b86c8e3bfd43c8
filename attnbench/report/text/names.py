"""Names and reasons as they may be shown: they come from users and plugins, and are data, never markup or paths."""

import re
from collections.abc import Iterable, Mapping

_PLAIN = {"µ": "u", "±": "+-", "–": "-", "−": "-", "×": "x", "…": "~", "∝": "~", "·": "-", "→": "->"}
_DRAWN = frozenset("µ±–−×…∝φ²")
_LABEL = re.compile(r"([^()]+)\((.+)\)")
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")


def one_line(text: str) -> str:
    """Without line breaks, tabs and control characters, which become single spaces."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def shorten(text: str, width: int) -> str:
    """At most `width` characters; the middle goes, for names differ at both ends."""
    text = one_line(text)
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}…{text[-tail:]}"


def short_names(labels: Iterable[str], width: int) -> dict[str, str]:
    """By label, a name of at most `width` characters; names that would coincide are numbered apart.

    Of a method that is there with several parameters, those that all its labels share go first.
    """
    each = list(labels)
    shared: dict[str, set[str]] = {}
    for method, params in filter(None, map(_split, each)):
        shared[method] = shared.get(method, set(params)) & set(params)
    names: dict[str, str] = {}
    for label in each:
        text = label if len(one_line(label)) <= width else _own(label, shared)
        name, count = shorten(text, width), 2
        while name in names.values():
            name, count = f"{shorten(text, width - len(str(count)) - 1)}~{count}", count + 1
        names[label] = name
    return names


def _split(label: str) -> tuple[str, list[str]] | None:
    """`linformer.linformer`, and `k=128` and `sharing=layerwise`; None of what is no method with parameters."""
    found = _LABEL.fullmatch(label)
    return (found[1], found[2].split(", ")) if found else None


def _own(label: str, shared: Mapping[str, set[str]]) -> str:
    """`linformer.linformer(k=128, …)`; as it is where all of it is shared, or nothing."""
    method, params = _split(label) or (label, [])
    own = [param for param in params if param not in shared[method]]
    return f"{method}({', '.join(own)}, …)" if own and len(own) < len(params) else label


def drawable(text: str) -> str:
    """With a box for each letter that the font of the figures may lack."""
    return "".join(c if ord(c) < 0x250 or c in _DRAWN else "□" for c in one_line(text))


def ascii_only(text: str) -> str:
    """For terminals that are not UTF-8: plain letters for the few signs that are used, ? for all others."""
    for sign, plain in _PLAIN.items():
        text = text.replace(sign, plain)
    return text.encode("ascii", "replace").decode()


def harmless(value: object) -> object:
    """A text that a spreadsheet would evaluate gets an apostrophe in front; all texts stay on one line.

    By its first letter, as OWASP lists them under CSV injection, the wide forms of East Asian keyboards included. What a
    program must read back is in records.jsonl as it was.
    """
    if not isinstance(value, str):
        return value
    text = one_line(value)
    return f"'{text}" if text.startswith(_FORMULA) else text
