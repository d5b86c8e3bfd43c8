"""Airspeed velocity: a folder that `asv publish` and `asv compare` work on; a result for each commit and environment."""

import html
import json
import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from scipy import special

from attnbench.analyze.points import UNFINISHED
from attnbench.analyze.quantities import Unit, main_quantity
from attnbench.analyze.sections import grouped
from attnbench.report.exports.cell_names import label_name, series_name
from attnbench.report.exports.exchange import (
    Entry,
    Export,
    ExportError,
    Place,
    Source,
    encode,
    notes,
    of_cell,
    one_machine,
    started,
    without_numbers,
)
from attnbench.report.findings import Findings
from attnbench.report.text.numbers import heading
from attnbench.schema.run import RunInfo

FOLDER, BENCHMARKS, CONFIG = "asv", "results/benchmarks.json", "asv.conf.json"
MACHINE_VERSION, RESULTS_VERSION, CONFIG_VERSION = 1, 2, 1
_MEANING = "1"
"""The version of the meaning of our numbers: asv does not compare values of different ones."""
COLUMNS = (
    *("result", "params", "version", "started_at", "stats_ci_99_a", "stats_ci_99_b"),
    *("stats_q_25", "stats_q_75", "stats_number", "stats_repeat", "samples"),
)
_TYPES = {Unit.SECONDS: ("time", "seconds"), Unit.BYTES: ("memory", "bytes")}
"""Asv's type and unit; all other figures are tracked in their own unit."""
_HARMFUL = re.compile(r"[^\w.+-]+", re.ASCII)
_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True)
class Benchmark:
    """One figure of a method under one set of conditions, by size as asv's parameter; None is a failure."""

    about: str
    unit: Unit
    points: Mapping[str, Entry | None]

    def described(self, name: str) -> dict[str, object]:
        """Write its part of benchmarks.json."""
        kind, unit = _TYPES.get(self.unit, ("track", self.unit.value))
        return {
            "code": self.about,
            "name": name,
            "param_names": ["N"],
            "params": [sorted(self.points, key=_rank)],
            "type": kind,
            "unit": unit,
            "version": _MEANING,
        }

    def row(self, milliseconds: int) -> list[object]:
        """Write its columns in a file of results."""
        sizes = sorted(self.points, key=_rank)
        points = [self.points[size] for size in sizes]
        samples = [list(entry.replicates) if entry and entry.quantity.is_replicated else None for entry in points]
        stats = [_stats(values) if values else {} for values in samples]
        columns = [[found.get(name) for found in stats] for name in COLUMNS[4:-1]]
        lists: list[Sequence[object]] = [[entry.value if entry else None for entry in points], *columns, samples]
        # asv writes null for a list of nothing
        values, *others = (None if all(value is None for value in each) else list(each) for each in lists)
        return [values, [sizes], _MEANING, milliseconds, *others]


Benchmarks = dict[str, Benchmark]
"""Benchmarks by name."""


def benchmarks(findings: Findings) -> Benchmarks:
    """Return the benchmarks of one run. Asv takes every increase for a loss, so it gets the figures of which less is better."""
    # what was not run is no failure, which asv's null would make of it
    tried = [(s, of_cell(findings, s)) for s in findings.summaries if s.status not in UNFINISHED]
    measured = {(s.cell.workload, entry.quantity.name) for s, found in tried for entry in found}
    every: list[Benchmarks] = []
    for summary, found in tried:
        cell, p = summary.cell, summary.cell.problem
        entries = {entry.quantity.name: entry for entry in found}
        # a number where it can be one, for then asv's page has an axis of numbers
        size = str(p.N) if p.B == 1 else f"{p.N} (B={p.B})"
        for quantity in findings.figures:
            entry = entries.get(quantity.name)
            # a cell that failed lacks what the others have
            expected = quantity.name == main_quantity(cell.workload) or (cell.workload, quantity.name) in measured
            if quantity.more_is_better or not (entry or (expected and not summary.ok)):
                continue
            what = f"{label_name(cell)}: {heading(quantity, cell.workload)}"
            # asv's pages show it as HTML
            about = html.escape(f"{what}\ntier {findings.tier(summary)}, {findings.paper(summary)}")
            name = f"{quantity.about or quantity.name}.{series_name(cell)}"
            every.append({name: Benchmark(about, quantity.unit, {size: entry})})
    return _united(every)


def _united(parts: Iterable[Benchmarks]) -> Benchmarks:
    """Join the sizes of benchmarks of the same name; where two have one size, the later counts."""
    every: Benchmarks = {}
    for name, each in (named for part in parts for named in part.items()):
        points = every[name].points if name in every else {}
        every[name] = Benchmark(each.about, each.unit, {**points, **each.points})
    return every


def _stats(values: Sequence[float]) -> dict[str, float]:
    """Return asv's statistics over the replicates, which are what is independent."""
    found: dict[str, float] = {"stats_number": 1, "stats_repeat": len(values)}
    if len(values) == 1:
        return {**found, "stats_q_25": values[0], "stats_q_75": values[0]}
    q25, _, q75 = statistics.quantiles(values, n=4, method="inclusive")
    # asv's own interval of so few values is infinite, which JSON cannot say
    half = float(special.stdtrit(len(values) - 1, 0.995)) * statistics.stdev(values) / math.sqrt(len(values))
    mean = statistics.fmean(values)
    return {**found, "stats_q_25": q25, "stats_q_75": q75, "stats_ci_99_a": mean - half, "stats_ci_99_b": mean + half}


class _Address(NamedTuple):
    """The names by which asv tells results apart."""

    machine: str
    commit: str
    environment: str


def make(sources: Sequence[Source]) -> Export:
    """Write runs; those of one commit on one machine become one result, where the latest counts. Raise ExportError."""
    history = sorted(sources, key=lambda source: started(source.findings.run))
    gathered = grouped((_address(source.findings.run), source) for source in history)
    found = {address: _united(benchmarks(source.findings) for source in group) for address, group in gathered.items()}
    every = _united(found.values())
    described: dict[str, object] = {name: every[name].described(name) for name in sorted(every)}
    files = {BENCHMARKS: encode({**described, "version": RESULTS_VERSION})}
    for address, group in gathered.items():
        environment = group[-1].findings.run.environment
        facts = {name: "" if value is None else _HARMFUL.sub(" ", str(value)) for name, value in environment.items()}
        machine = {
            "arch": "",
            "cpu": facts.get("processor", ""),
            "machine": address.machine,
            "num_cpu": facts.get("cores", ""),
            "os": facts.get("system", ""),
            "ram": f"{facts['memory_gib']} GiB" if facts.get("memory_gib") else "",
            "version": MACHINE_VERSION,
        }
        folder = f"results/{address.machine}"
        files[f"{folder}/machine.json"] = encode(machine)
        files[f"{folder}/{address.commit[:8]}-{address.environment}.json"] = _results(address, group, found[address])
    config = {
        "version": CONFIG_VERSION,
        "project": sources[-1].findings.run.suite.name,
        **{"project_url": "#", "repo": ".", "dvcs": "git", "branches": ["HEAD"], "show_commit_url": "#"},
        **{"benchmark_dir": ".", "results_dir": "results", "html_dir": "html"},
    }
    said = []
    for source in sources:
        run = source.findings.run
        dirty = ["measured with changes that were not committed"] if run.git.get("dirty") else []
        said += [f"run {run.id}: {line}" for line in (*dirty, *notes(source.findings, "null"), *one_machine(run))]
    return Export({**files, CONFIG: encode(config)}, tuple(said))


def _address(run: RunInfo) -> _Address:
    commit = run.git.get("commit")
    if not isinstance(commit, str) or not _HASH.fullmatch(commit):
        raise ExportError(
            f"run {run.id}: asv keeps a history of commits, and run.json names none (git: commit: {commit!r}); "
            "runs made inside a git repository have one"
        )
    software = f"python{_python(run)}-torch{run.environment.get('torch')}"
    return _Address(_file_word(run.machine), commit, _file_word(software))


def _file_word(text: str) -> str:
    return _HARMFUL.sub("_", text).lstrip(".")[:100] or "_"


def _python(run: RunInfo) -> str:
    return ".".join(str(run.environment.get("python") or "").split(".")[:2])


def _results(address: _Address, group: Sequence[Source], found: Benchmarks) -> bytes:
    """Write a commit's results. Only what seldom changes is a parameter: each value is a line of its own in the plots."""
    first, last = (round(started(each.findings.run).timestamp() * 1000) for each in (group[0], group[-1]))
    run = group[-1].findings.run
    torch = _file_word(str(run.environment.get("torch")))
    data = {
        "commit_hash": address.commit,
        "env_name": address.environment,
        "date": first,
        "params": {"machine": address.machine, "python": _python(run), "torch": torch},
        "python": _python(run),
        "requirements": {"torch": torch},
        "env_vars": {},
        "result_columns": list(COLUMNS),
        "results": {name: each.row(last) for name, each in found.items()},
        "durations": {},
        "attnbench": {s.findings.run.id: {"without_numbers": without_numbers(s.findings)} for s in group},
        "version": RESULTS_VERSION,
    }
    return encode(data, indent=None)


def settle(export: Export, place: Place) -> Export:
    """Fit a new export to the folder, which grows from export to export. Raise ExportError where that holds something else.

    Benchmarks keep the sizes that they had; a commit's results keep the benchmarks that the new ones lack; asv.conf.json
    stays as it is, for it is the user's.
    """
    files = {name: _merged(name, new, place) for name, new in export.files.items()}
    lost = CONFIG not in place.known and place.repository is None
    hint = (f'{CONFIG}: set "repo" to the repository that was measured; none was found around here',) if lost else ()
    return Export(files, (*export.notes, *hint))


def _merged(name: str, content: bytes, place: Place) -> bytes:
    if name == CONFIG:
        return place.known.get(CONFIG) or encode({**json.loads(content), "repo": place.repository or "."})
    if name not in place.known or name.endswith("/machine.json"):
        return content
    try:
        old: Any = json.loads(place.known[name])
    except (ValueError, RecursionError):
        old = None
    if not isinstance(old, dict) or old.get("version") != RESULTS_VERSION:
        raise ExportError(
            f"{name} is there already, and is no file of asv (version {RESULTS_VERSION}); name another folder by --out"
        )
    new = json.loads(content)
    if name == BENCHMARKS:
        for shared in old.keys() & new.keys() - {"version"}:
            sizes = dict.fromkeys(text for entry in (old[shared], new[shared]) for text in (entry.get("params") or [[]])[0])
            new[shared]["params"] = [sorted(sizes, key=_rank)]
        return encode(dict(sorted({**old, **new}.items())))
    # rows that cannot be read by the new columns are no rows of ours, and go
    kept = ("results", "attnbench") if old.get("result_columns") == new["result_columns"] else ("attnbench",)
    for key in kept:
        new[key] = {**(old[key] if isinstance(old.get(key), dict) else {}), **new[key]}
    return encode(new, indent=None)


def _rank(text: str) -> tuple[int, int, str]:
    """Order sizes such as `1024 (B=8)` by N, then by B."""
    N, _, B = text.removesuffix(")").partition(" (B=")
    return (int(N) if N.isdecimal() else 0, int(B) if B.isdecimal() else 1, text)
