"""A run whose every text is hostile, and one of the same make whose texts are plain."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from attnbench.analyze.trend import Trends, look, quantity_called
from attnbench.report.findings import Findings
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.history import Entry
from attnbench.schema.outcome import Counter, Failed, Measured, Status
from attnbench.schema.problem import Problem
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo
from attnbench.schema.suite import ReportSpec
from tests.analyze.conftest import track_of
from tests.report.conftest import Law, Synthetic

WORDS = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(2)>",
    "</style><!-- ]]> -->",
    "a|b||c",
    "\\input{/etc/passwd}",
    "\\immediate\\write18{id}^^5cinput",
    "$x$ % & # _ { } ~ ^ \\",
    "=cmd()",
    "+1",
    "-1",
    "@SUM(A1)",
    "＝cmd()",
    "\t=cmd()|' /C calc'!A0",
    "`code` ``` **bold** _soft_ [a](javascript:alert(3))",
    "![i](http://example.invalid/x.png) <http://example.invalid>",
    "line\nbreak\r\n| --- |\n# head",
    "nul\x00 bell\x07 \x1b[31mred\x9b2J",
    "\u202eright\u202c \u2066to\u2069 \u200fleft\u2028\u2029\ufeff",
    '" \' onload=alert(4) x="',
    "&lt;b&gt; &#60;i&#62; &amp",
    "{{ 7 * 7 }}{% raw %}",
    "[x] y \\\\[2pt] *{3}{c}",
    "🦄 中文 👩\u200d👩",
    "../../x",
    "nan",
    "x" * 10_000,
)
NASTY = "</script><b>alert(5)</b> <!-- | \\input{/etc/passwd} $x_$ % & # _ { } ~ ^ =cmd() `c` \u202e\x00\x1b[31m\n\t' \" [z] 🦄"
BASE = "softmax.[x] \\\\[2pt] <b onclick=alert(6)> | $y^$ %"


@dataclass(frozen=True)
class Bundle:
    """A run with all that was recorded."""

    info: RunInfo
    records: tuple[Record, ...]
    findings: Findings
    nasty: str = NASTY


def bundle(*, hostile: bool) -> Bundle:
    words = WORDS if hostile else tuple(f"word{i}" for i in range(len(WORDS)))
    nasty, base = (NASTY, BASE) if hostile else ("plain", "softmax.plain")
    made = Synthetic(
        [Law(base, 5e-4, 1.5, {nasty: nasty}), *_laws(words, nasty)],
        lengths=(512, 1024),
        workloads=(Workload.FORWARD, Workload.DECODE),
        replicates=2,
        report=ReportSpec(tables=("summary", "time", "speedup", "memory", "state"), plots=("time",)),
    )
    info = _spoiled_info(made.run(), nasty)
    records = tuple(_spoiled(record, nasty) for record in made.records())
    return Bundle(info, records, Findings.of(info, records))


def _laws(words: Sequence[str], nasty: str) -> Iterator[Law]:
    """Every third fails, in every way there is."""
    for i, word in enumerate(words):
        if i % 3:
            yield Law(word, 1e-3 * (1 + i), 1.0, {word[:100]: word[:100]} if i % 2 else {})
        else:
            yield Law(word, 1e-3, 1.0, stop_at=1, status=list(Status)[i % len(Status)], reason=f"{word[:300]} {nasty}")


def _there(cell: Cell, nasty: str) -> Cell:
    """Half of the cells on a device of a name that says something."""
    return cell if cell.problem.causal else cell.model_copy(update={"device": f"cpu:{nasty}"})


def _spoiled_info(info: RunInfo, nasty: str) -> RunInfo:
    facts = {**info.environment, "processor": nasty, "system": nasty, nasty: nasty}
    described = {"paper": nasty, "tier": nasty, "summary": nasty, "version": nasty, "missing": (nasty,)}
    return info.model_copy(
        update={
            "id": nasty,
            "command": nasty,
            "environment": facts,
            "environment_digest": nasty,
            "git": {"commit": nasty, "branch": nasty, nasty: nasty},
            "surroundings": info.surroundings.model_copy(update={"device": f"cpu {nasty}", "facts": facts}),
            "suite": info.suite.model_copy(update={"source": nasty}),
            "methods": {name: each.model_copy(update=described) for name, each in info.methods.items()},
            "cells": tuple(_there(cell, nasty) for cell in info.cells),
        }
    )


def _spoiled(record: Record, nasty: str) -> Record:
    outcome: Measured | Failed
    if isinstance(record.outcome, Failed):
        outcome = record.outcome.model_copy(update={"detail": nasty})
    else:
        known = record.outcome
        facts = {**known.facts, "backend": nasty, "clock": nasty, "stop": nasty, nasty: nasty}
        named = {name: counter.model_copy(update={"source": nasty}) for name, counter in known.memory.items()}
        memory = {**named, f"={nasty}": Counter(bytes=7, source=nasty, reason=nasty)} if known.memory else {}
        outcome = known.model_copy(update={"facts": facts, "flags": (nasty,), "memory": memory})
    job = record.job.model_copy(update={"cell": _there(record.job.cell, nasty)})
    return record.model_copy(update={"job": job, "outcome": outcome, "environment": nasty, "note": nasty})


def unseen(text: str, known: str = "\n") -> set[str]:
    """Return control characters and marks of direction, but for those that are no name's, such as ends of lines."""
    return {letter for letter in text if not letter.isprintable()} - set(known)


@pytest.fixture(scope="session")
def run() -> Bundle:
    """A run whose every text is hostile."""
    return bundle(hostile=True)


@pytest.fixture(scope="session")
def plain() -> Bundle:
    """The same run with plain texts."""
    return bundle(hostile=False)


@pytest.fixture
def trends() -> Trends:
    """A series a word, on a machine of that name, which fails in the end for that reason."""
    runs = [
        Entry(
            place=f"nightly/{NASTY}{i}",
            suite="nightly",
            run=f"{NASTY}{i}",
            started=f"{np.datetime64('2026-01-01') + i}T03:04:05+00:00",
            machine=NASTY,
            commit=NASTY if i % 2 else "ab" * 20,
            facts={"torch": str(i // 10), NASTY: NASTY * (i // 10)},
            methods={word: str(i // 10) for word in WORDS},
            ok=1,
        )
        for i in range(40)
    ]
    tracks = []
    for seed, word in enumerate(WORDS):
        seconds = np.repeat([0.01, 0.02], 20) * np.exp(np.random.default_rng(seed).normal(0, 0.01, 40))
        seconds[38:] = np.nan
        cell, failure = Cell(method=word, problem=Problem(N=1024)), (Status.CRASHED.value, word)
        tracks.append(track_of(cell, seconds, failure=failure, suite="nightly", machine=word))
    return look([*runs, Entry(NASTY, problem=NASTY)], tracks, quantity_called("time"), 0.05)
