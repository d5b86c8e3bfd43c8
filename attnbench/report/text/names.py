"""Names and reasons as they may be shown: they come from users and plugins, and are data, never markup or paths."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping

_PLAIN = str.maketrans({"µ": "u", "±": "+-", "–": "-", "−": "-", "×": "x", "…": "~", "∝": "~", "·": "-", "→": "->", "≤": "<="})
_DRAWN = frozenset("µ±–−×…∝φ²")
_LABEL = re.compile(r"([^()]+)\((.+)\)")
_NOISE = re.compile(r"\((?:R|TM|C)\)|[®™]|\b(?:CPU|Processor)\b|@ *[\d.]+ *[GM]Hz", re.IGNORECASE)
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")


def one_line(text: str) -> str:
    """Turn line breaks, tabs and control characters into single spaces."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def shorten(text: str, width: int) -> str:
    """Shorten a text to at most `width` characters; the middle goes, for names differ at both ends."""
    text = one_line(text)
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"


def without_noise(machine: str) -> str:
    """Return the name of a processor without what its maker adds: `Intel Xeon` for `Intel(R) Xeon(R) CPU @ 2.60GHz`."""
    return one_line(_NOISE.sub(" ", machine))


def short_names(labels: Iterable[str], width: int) -> dict[str, str]:
    """Return by label a name of at most `width` characters; names that would coincide are numbered.

    Of a method that is there with several parameters, those that all its labels share go first: `linformer(k=128, …)`.
    """
    each = list(labels)
    shared: dict[str, set[str]] = {}
    for method, params in filter(None, map(_split, each)):
        shared[method] = shared.get(method, set(params)) & set(params)
    names: dict[str, str] = {}
    for label in each:
        text = label
        if len(one_line(label)) > width and (found := _split(label)):
            method, params = found
            own = [param for param in params if param not in shared[method]]
            # the label as it is where all of it is shared, or nothing
            text = f"{method}({', '.join(own)}, …)" if own and len(own) < len(params) else label
        name, count = shorten(text, width), 2
        while name in names.values():
            name, count = f"{shorten(text, width - len(str(count)) - 1)}~{count}", count + 1
        names[label] = name
    return names


def names_of(called: Mapping[str, str], width: int) -> dict[str, str]:
    """Return by label a short name by what it is called; labels that are called the same keep their own."""
    counts = Counter((*called.values(), *called))
    # one's own name counts twice where nothing else is called so
    texts = {label: text if counts[text] == 1 + (text == label) else label for label, text in called.items()}
    names = short_names(texts.values(), width)
    return {label: names[text] for label, text in texts.items()}


def _split(label: str) -> tuple[str, list[str]] | None:
    """Split into `linformer.linformer`, and `k=128` and `sharing=layerwise`; None of what is no method with parameters."""
    found = _LABEL.fullmatch(label)
    return (found[1], found[2].split(", ")) if found else None


def drawable(text: str) -> str:
    """Put a box in the place of each letter that the font of the figures may lack."""
    return "".join(c if ord(c) < 0x250 or c in _DRAWN else "□" for c in one_line(text))


def ascii_only(text: str) -> str:
    """Write for terminals that are not UTF-8: plain letters for the few signs that are used, ? for all others."""
    return text.translate(_PLAIN).encode("ascii", "replace").decode()


def harmless(value: object) -> object:
    """Put an apostrophe in front of a text that a spreadsheet would evaluate; all texts stay on one line.

    The first letter decides, as OWASP lists them under CSV injection, the wide forms of East Asian keyboards included. What
    a program must read back is in records.jsonl as it was.
    """
    if not isinstance(value, str):
        return value
    text = one_line(value)
    return f"'{text}" if text.startswith(_FORMULA) else text
