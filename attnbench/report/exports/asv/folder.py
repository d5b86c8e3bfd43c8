"""Asv's folder grows from export to export: what is there already is kept."""

import json
from typing import Any

from attnbench.report.exports.asv.results import BENCHMARKS, CONFIG, RESULTS_VERSION
from attnbench.report.exports.exchange import Export, ExportError, Place
from attnbench.report.exports.strict_json import encode


def settle(export: Export, place: Place) -> Export:
    """Fit a new export to the folder. Raises ExportError where that holds something else.

    Benchmarks keep the sizes that they had; a commit's results keep the benchmarks that the new ones lack; asv.conf.json
    stays as it is, for it is the user's.
    """
    files = {name: _merged(name, new, place) for name, new in export.files.items()}
    lost = CONFIG not in place.known and place.repository is None
    hint = (f'{CONFIG}: set "repo" to the repository that was measured; none was found around here',) if lost else ()
    return Export(files, (*export.notes, *hint))


def _merged(name: str, new: bytes, place: Place) -> bytes:
    if name == CONFIG:
        return place.known.get(CONFIG) or encode({**json.loads(new), "repo": place.repository or "."})
    if name not in place.known or name.endswith("/machine.json"):
        return new
    old, fresh = _read(name, place.known[name]), json.loads(new)
    return encode(_catalogue(old, fresh)) if name == BENCHMARKS else encode(_results(old, fresh), indent=None)


def _read(name: str, content: bytes) -> dict[str, Any]:
    """A file of asv's version 2; raises ExportError of any other."""
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) or data.get("version") != RESULTS_VERSION:
        raise ExportError(
            f"{name} is there already, and is no file of asv (version {RESULTS_VERSION}); name another folder by --out"
        )
    return data


def _catalogue(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    united = {**old, **new}
    for name in old.keys() & new.keys() - {"version"}:
        united[name] = {**new[name], "params": [_sizes(old[name], new[name])]}
    return dict(sorted(united.items()))


def _sizes(*entries: dict[str, Any]) -> list[str]:
    texts = dict.fromkeys(text for entry in entries for text in (entry.get("params") or [[]])[0])
    return sorted(texts, key=_rank)


def _rank(text: str) -> tuple[int, int, str]:
    """By N, then by B; `1024 (B=8)`."""
    N, _, B = text.removesuffix(")").partition(" (B=")
    return (int(N) if N.isdecimal() else 0, int(B) if B.isdecimal() else 1, text)


def _results(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Rows that cannot be read by the new columns are no rows of ours, and go."""
    kept = _dict(old, "results") if old.get("result_columns") == new["result_columns"] else {}
    about = _dict(old, "attnbench")
    return {**new, "results": {**kept, **new["results"]}, "attnbench": {**about, **new["attnbench"]}}


def _dict(data: dict[str, Any], name: str) -> dict[str, Any]:
    value = data.get(name)
    return value if isinstance(value, dict) else {}
