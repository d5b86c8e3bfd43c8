"""Apache Otava: CSV with a row for each run, and otava.yaml with a test for each cell.

Otava reads no gaps. So series that have values in the same runs share a file; where none ever failed, there is one.
"""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ruamel.yaml import YAML

from attnbench.report.exports.cell_names import block_name
from attnbench.report.exports.dates import started
from attnbench.report.exports.entries import Entry, notes, timed, timed_or_refused, without_numbers
from attnbench.report.exports.exchange import Export, Source
from attnbench.report.text.names import harmless
from attnbench.schema.run import RunInfo

FOLDER = "otava"
CONFIG = "otava.yaml"
_FAILED = "without-numbers.csv"
_ATTRIBUTES = ("run", "commit", "environment")


@dataclass(frozen=True)
class _Value:
    """Of one cell in one run; smaller is better."""

    name: str
    group: str
    unit: str
    value: float


def make(sources: Sequence[Source]) -> Export:
    """A history, by rising date. Raises ExportError where no run has a time."""
    history = sorted(sources, key=lambda source: started(source.findings.run))
    if not any(timed(source.findings) for source in history):
        timed_or_refused(history[-1])
    rows = [{value.name: value for value in _values(source)} for source in history]
    tables = _tables(rows)
    files = {file: _csv(history, rows, present, names) for file, (present, names) in tables.items()}
    files[CONFIG] = _config(rows, tables)
    if failed := [(source, each) for source in history for each in without_numbers(source.findings)]:
        files[_FAILED] = _failed(failed)
    return Export(files, tuple(f"run {s.findings.run.id}: {note}" for s in history for note in notes(s.findings)))


def _values(source: Source) -> Iterator[_Value]:
    counter = source.findings.counter
    for entry in timed(source.findings):
        yield _value(entry, "time", "seconds", entry.seconds)
        if counter is not None and entry.bytes is not None:
            yield _value(entry, counter.name, "bytes", entry.bytes)


def _value(entry: Entry, what: str, unit: str, value: float) -> _Value:
    return _Value(f"{what}/{entry.name}", f"{what}/{block_name(entry.summary.cell)}", unit, value)


Tables = Mapping[str, tuple[tuple[int, ...], list[str]]]


def _tables(rows: Sequence[Mapping[str, _Value]]) -> Tables:
    """By file: the runs that it has a row for, and its series."""
    shared: dict[tuple[int, ...], list[str]] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        shared.setdefault(tuple(i for i, row in enumerate(rows) if name in row), []).append(name)
    fullest = sorted(shared.items(), key=lambda each: -len(each[0]))
    return {f"history{f'-{i}' if i > 1 else ''}.csv": each for i, each in enumerate(fullest, 1)}


def _csv(
    history: Sequence[Source], rows: Sequence[Mapping[str, _Value]], present: Sequence[int], names: Sequence[str]
) -> bytes:
    lines = [["time", *_ATTRIBUTES, *names]]
    for i in present:
        lines.append([*_about(history[i].findings.run), *(repr(rows[i][name].value) for name in names)])
    return _written(lines)


def _about(run: RunInfo) -> list[str]:
    """When, and the attributes."""
    words = (run.id, run.git.get("commit") or "unknown", run.environment_digest)
    return [started(run).isoformat(), *(str(harmless(str(word))) for word in words)]


def _written(lines: Sequence[Sequence[str]]) -> bytes:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(lines)
    return out.getvalue().encode()


def _failed(failed: Sequence[tuple[Source, Mapping[str, str]]]) -> bytes:
    rows = [(source.findings.run.id, *(each[name] for name in ("name", "status", "reason"))) for source, each in failed]
    lines = [[str(harmless(text)) for text in row] for row in rows]
    return _written([["run", "name", "status", "reason"], *lines])


def _config(rows: Sequence[Mapping[str, _Value]], tables: Tables) -> bytes:
    values = {name: value for row in rows for name, value in row.items()}
    files = {name: file for file, (_, names) in tables.items() for name in names}
    groups: dict[str, list[str]] = {}
    for name in files:
        groups.setdefault(values[name].group, []).append(name)
    tests = {name: _test(values[name], file) for name, file in files.items()}
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style, yaml.width, yaml.allow_unicode = False, 4096, False
    out = io.StringIO()
    yaml.dump({"tests": tests, "test_groups": groups}, out)
    return out.getvalue().encode()


def _test(value: _Value, file: str) -> dict[str, object]:
    return {
        "type": "csv",
        "file": file,
        "time_column": "time",
        "attributes": list(_ATTRIBUTES),
        "metrics": {value.unit: {"column": value.name, "direction": -1, "scale": 1}},
        "csv_options": {"delimiter": ",", "quote_char": '"'},
    }
