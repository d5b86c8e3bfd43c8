"""The name of a cell in other tools: it follows from the cell alone, so that its history has one name in every run.

Names are plain ASCII, whatever a method is called: some tools put them into HTML, Markdown or file names as they are.
"""

import hashlib
import json
import re

from attnbench.report.text.names import shorten
from attnbench.schema.cell import Cell

_METHOD = re.compile(r"[A-Za-z_][\w.:]*(\+packed)?(\+compile)?", re.ASCII)
_PARAMETER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_WORD = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
# texts that would read as other values do
_TAKEN = {"True", "False", "inf", "nan"}
_HARMFUL = re.compile(r"[^\w.:=(), +-]+", re.ASCII)
_NO_FILE = re.compile(r"[^\w.=~-]+", re.ASCII)
_LONGEST = 120
# files that somebody names, too
_SETTING = re.compile(r"[\w.:-]{1,60}", re.ASCII)
_SAID_ELSEWHERE = {"method", "params", "workload", "causal", "dtype", "N", "B"}


def cell_name(cell: Cell) -> str:
    """Return `forward/causal/float32/N=1024/linear.chunked(chunk=64)`; no two cells share one."""
    return f"{block_name(cell)}/{label_name(cell)}"


def block_name(cell: Cell) -> str:
    """Return all but the method: `forward/causal/float32/N=1024`."""
    p = cell.problem
    return "/".join([*_kind(cell), f"N={p.N}", *([f"B={p.B}"] if p.B != 1 else [])])


def series_name(cell: Cell) -> str:
    """Return all but the size, fit for a file name: `forward.causal.float32.linear.chunked-chunk=64`."""
    words = [_NO_FILE.sub("_", word.replace(":", "~")) for word in _kind(cell)]
    if not _is_plain(cell):
        return ".".join([*words, f"{_NO_FILE.sub('_', cell.method)[:60]}-{_digest(cell)}"])
    label = [
        cell.method.replace(":", "~").replace("+", "-"),
        *(f"{name}={value}" for name, value in sorted(cell.params.items())),
    ]
    # only a large number has a plus, as in 1e+16
    return ".".join([*words, "-".join(label).replace("+", "")])


def label_name(cell: Cell) -> str:
    """Return the method with its parameters; one that is not plain is rewritten, and told apart by a digest."""
    return cell.label if _is_plain(cell) else f"{_HARMFUL.sub('_', shorten(cell.label, 80))}#{_digest(cell)}"


def _kind(cell: Cell) -> list[str]:
    """Return the workload, the mask, the dtype, and whatever is not the default.

    A setting whose text is not plain is rewritten, and told apart by a digest.
    """
    settings = cell.canonical()
    settings |= settings.pop("problem") | settings.pop("training", {}) | settings.pop("model", {})
    words = []
    for name in sorted(settings.keys() - _SAID_ELSEWHERE):
        value = settings[name]
        plain = not isinstance(value, str) or _SETTING.fullmatch(value)
        words.append(f"{name}={value}" if plain else f"{name}={_HARMFUL.sub('_', shorten(value, 40))}#{_sha(value)}")
    return [cell.workload.value, cell.problem.mask, cell.problem.dtype.value, *words]


def _is_plain(cell: Cell) -> bool:
    """Say whether the label is harmless, and that of no other method."""
    texts = [value for value in cell.params.values() if isinstance(value, str)]
    return (
        len(cell.label) <= _LONGEST
        and _METHOD.fullmatch(cell.method) is not None
        and all(map(_PARAMETER.fullmatch, cell.params))
        and all(_WORD.fullmatch(text) and text not in _TAKEN for text in texts)
    )


def _digest(cell: Cell) -> str:
    return _sha(json.dumps([cell.method, cell.params], sort_keys=True))


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
