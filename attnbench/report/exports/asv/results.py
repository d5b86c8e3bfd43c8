"""Airspeed velocity: a folder that `asv publish` and `asv compare` work on; a result for each commit and environment."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from attnbench.report.exports.asv.points import COLUMNS, Benchmark, benchmarks, united
from attnbench.report.exports.dates import started
from attnbench.report.exports.entries import notes, without_numbers
from attnbench.report.exports.exchange import Export, ExportError, Source
from attnbench.report.exports.strict_json import encode
from attnbench.schema.run import RunInfo

FOLDER = "asv"
BENCHMARKS = "results/benchmarks.json"
CONFIG = "asv.conf.json"
MACHINE_VERSION, RESULTS_VERSION, CONFIG_VERSION = 1, 2, 1
_HARMFUL = re.compile(r"[^\w.+-]+", re.ASCII)
_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True)
class _Address:
    """What asv tells results apart by."""

    machine: str
    commit: str
    environment: str

    @property
    def file(self) -> str:
        return f"results/{self.machine}/{self.commit[:8]}-{self.environment}.json"


def make(sources: Sequence[Source]) -> Export:
    """Runs of one commit on one machine become one result; where they share a cell, the latest counts. Raises ExportError."""
    gathered: dict[_Address, list[Source]] = {}
    for source in sorted(sources, key=lambda source: started(source.findings.run)):
        gathered.setdefault(_address(source.findings.run), []).append(source)
    found = {address: united(_benchmarks(group)) for address, group in gathered.items()}
    files: dict[str, bytes] = {BENCHMARKS: _catalogue(each for group in found.values() for each in group)}
    for address, group in gathered.items():
        files[f"results/{address.machine}/machine.json"] = _machine(address, group[-1].findings.run)
        files[address.file] = _results(address, group, found[address])
    files[CONFIG] = _config(sources[-1].findings.run)
    return Export(files, tuple(note for source in sources for note in _notes(source)))


def _benchmarks(group: Iterable[Source]) -> Iterable[Benchmark]:
    return (each for source in group for each in benchmarks(source.findings))


def _address(run: RunInfo) -> _Address:
    commit = run.git.get("commit")
    if not isinstance(commit, str) or not _HASH.fullmatch(commit):
        raise ExportError(
            f"run {run.id}: asv keeps a history of commits, and run.json names none (git: commit: {commit!r}); "
            "runs made inside a git repository have one"
        )
    facts = run.environment | run.surroundings.facts
    machine = f"{facts.get('gpu') or facts.get('processor') or 'machine'}-{facts.get('cores') or 0}-cores"
    return _Address(_file_word(machine), commit, _file_word(f"python{_python(run)}-torch{facts.get('torch')}"))


def _file_word(text: str) -> str:
    return _HARMFUL.sub("_", text).lstrip(".")[:100] or "_"


def _python(run: RunInfo) -> str:
    return ".".join(str(run.environment.get("python") or "").split(".")[:2])


def _catalogue(every: Iterable[Benchmark]) -> bytes:
    entries: Mapping[str, object] = {each.name: each.entry() for each in sorted(united(every), key=lambda each: each.name)}
    return encode({**entries, "version": RESULTS_VERSION})


def _machine(address: _Address, run: RunInfo) -> bytes:
    facts = {name: "" if value is None else _HARMFUL.sub(" ", str(value)) for name, value in run.environment.items()}
    known = {
        "arch": "",
        "cpu": facts.get("processor", ""),
        "machine": address.machine,
        "num_cpu": facts.get("cores", ""),
        "os": facts.get("system", ""),
        "ram": f"{facts['memory_gib']} GiB" if facts.get("memory_gib") else "",
    }
    return encode({**known, "version": MACHINE_VERSION})


def _results(address: _Address, group: Sequence[Source], found: Sequence[Benchmark]) -> bytes:
    """Only what stays the same over a machine's life is a parameter: each value of one is a line of its own in the plots."""
    first, last = group[0].findings.run, group[-1].findings.run
    milliseconds = round(started(last).timestamp() * 1000)
    torch = _file_word(str(last.environment.get("torch")))
    return encode(
        {
            "commit_hash": address.commit,
            "env_name": address.environment,
            "date": round(started(first).timestamp() * 1000),
            "params": {"machine": address.machine, "python": _python(last), "torch": torch},
            "python": _python(last),
            "requirements": {"torch": torch},
            "env_vars": {},
            "result_columns": list(COLUMNS),
            "results": {each.name: each.row(milliseconds) for each in found},
            "durations": {},
            "attnbench": {s.findings.run.id: {"without_numbers": without_numbers(s.findings)} for s in group},
            "version": RESULTS_VERSION,
        },
        indent=None,
    )


def _config(run: RunInfo) -> bytes:
    return encode(
        {
            "version": CONFIG_VERSION,
            "project": run.suite.name,
            "project_url": "#",
            "repo": ".",
            "dvcs": "git",
            "branches": ["HEAD"],
            "show_commit_url": "#",
            "benchmark_dir": ".",
            "results_dir": "results",
            "html_dir": "html",
        }
    )


def _notes(source: Source) -> list[str]:
    run = source.findings.run
    dirty = ["measured with changes that were not committed"] if run.git.get("dirty") else []
    return [f"run {run.id}: {line}" for line in (*dirty, *notes(source.findings, "null"))]
