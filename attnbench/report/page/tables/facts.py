"""Where and how runs were measured: the environment as a table, the notes of conditions, and how to do it again."""

import json
from dataclasses import dataclass

from markupsafe import Markup, escape

from attnbench.analyze.cells import CellSummary
from attnbench.report import conditions
from attnbench.report.findings import Findings
from attnbench.report.page.board import Board
from attnbench.report.page.run_names import commit
from attnbench.report.questions.fidelity.notes import score_notes
from attnbench.report.text.names import one_line
from attnbench.report.text.statuses import reasons
from attnbench.report.text.table import Table
from attnbench.schema.errand import Roof
from attnbench.schema.run import RunInfo
from attnbench.schema.units import three_digits

_MISSING = "n/a"


@dataclass(frozen=True)
class Again:
    """How one run is made once more."""

    commands: Markup
    about: str
    suite: Markup
    """The suite as it was resolved, as JSON, which is YAML too."""


def environment(board: Board) -> Table:
    """Facts by runs."""
    known = [_facts(findings.run) for findings in board.runs]
    names = dict.fromkeys(name for facts in known for name in facts)
    rows = tuple((name, *(facts.get(name, _MISSING) for facts in known)) for name in names)
    heads = board.names if len(board.runs) > 1 else ("value",)
    return Table("Environment", ("fact", *heads), rows)


def _facts(run: RunInfo) -> dict[str, str]:
    facts = {"run": run.id, "started": run.started, "suite": run.suite.name, "source": run.suite.source, "commit": commit(run)}
    facts |= {"device": run.surroundings.device}
    facts |= {name: _MISSING if value is None else str(value) for name, value in _all(run).items()}
    facts |= {f"roof, {name}": _roof(roof) for name, roof in run.surroundings.roof.items()}
    return {name: text for name, text in (facts | {"environment": run.environment_digest}).items() if text}


def _all(run: RunInfo) -> dict[str, object]:
    return {**run.environment, **run.surroundings.facts}


def _roof(roof: Roof) -> str:
    flops, copied = three_digits(roof.flops_per_second / 1e9), three_digits(roof.bytes_per_second / 1e9)
    return f"{flops} GFLOP/s in a large product, {copied} GB/s in a large copy"


def methods(board: Board) -> Table:
    """What each method says of itself."""
    found: dict[str, tuple[str, ...]] = {}
    for findings in board.runs:
        for name, about in findings.run.methods.items():
            found.setdefault(name, (name, about.tier, about.summary, about.paper, about.version))
    return Table("Methods", ("method", "tier", "what it is", "paper", "version"), tuple(found.values()))


def notes(findings: Findings) -> list[str]:
    """Of a run as a whole, without the reasons of failures, which stand beside their map."""
    timed = [s for s in findings.summaries if s.cell.workload.is_timed]
    scored: list[str] = []
    for workload in dict.fromkeys(s.cell.workload for s in findings.summaries if not s.cell.workload.is_timed):
        lines = _scored(findings, [s for s in findings.summaries if s.cell.workload is workload])
        scored += [f"{workload.value.capitalize()}: {line}" if timed else line for line in lines]
    return list(dict.fromkeys([*_timed(findings, timed), *scored]))


def _timed(findings: Findings, cells: list[CellSummary]) -> list[str]:
    if not cells:
        return []
    replication, memory = conditions.replication(cells), conditions.memory_notes(findings, cells)
    return [*replication, *memory, *conditions.conditions(findings, cells)]


def _scored(findings: Findings, cells: list[CellSummary]) -> list[str]:
    told = {*reasons(cells), conditions.machine(findings)} if len(cells) < len(findings.summaries) else set(reasons(cells))
    return [line for line in score_notes(findings, cells) if line not in told]


def again(findings: Findings) -> Again:
    """The command as it was given, at the commit at which it was given."""
    run = findings.run
    known = run.git.get("commit")
    checkout = [f"git checkout {one_line(str(known))}"] if known else []
    changed = "; the checkout had changes that were not committed" if run.git.get("dirty") else ""
    about = f"Run {one_line(run.id)}, environment {one_line(run.environment_digest)}{changed}."
    return Again(_lines([*checkout, one_line(run.command)]), about, _suite(run))


def _suite(run: RunInfo) -> Markup:
    return _lines(json.dumps(run.suite.model_dump(mode="json", exclude_defaults=True), indent=1).split("\n"))


def _lines(texts: list[str]) -> Markup:
    """Escaped, each on a line of its own."""
    return Markup("\n").join(map(escape, texts))
