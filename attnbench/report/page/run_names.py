"""What runs are called where several stand side by side: by what tells them apart."""

from collections.abc import Sequence

from attnbench.report.conditions import short_machine
from attnbench.report.findings import Findings
from attnbench.report.text.names import one_line, shorten
from attnbench.schema.run import RunInfo

_LONGEST = 60


def run_names(runs: Sequence[Findings]) -> tuple[str, ...]:
    """Suite, machine, commit or time, the first that tells all apart; all that differ where none does.

    The run's id where nothing differs; numbered where that is alike.
    """
    parts = list(zip(*((f.run.suite.name, short_machine(f), commit(f.run), moment(f.run)) for f in runs), strict=True))
    telling = [texts for texts in parts if len(set(texts)) == len(runs) > 1 and all(texts)][:1]
    varying = telling or [texts for texts in parts if len(set(texts)) > 1]
    names = [", ".join(filter(None, texts)) for texts in zip(*varying, strict=True)] or [""] * len(runs)
    names = [shorten(name or findings.run.id, _LONGEST) for name, findings in zip(names, runs, strict=True)]
    return tuple(name if names.count(name) == 1 else f"{name} ({number})" for number, name in enumerate(names, 1))


def commit(run: RunInfo) -> str:
    """Short, with a plus where the checkout had changes; empty where it is not known."""
    known = run.git.get("commit")
    return one_line(f"{str(known)[:10]}{'+' if run.git.get('dirty') else ''}") if known else ""


def moment(run: RunInfo) -> str:
    """`2026-01-02 03:04 UTC`, as far as the run says so."""
    date, _, time = one_line(run.started).partition("T")
    return f"{date} {time[:5]} UTC" if time.endswith("+00:00") else f"{date} {time}".strip()
