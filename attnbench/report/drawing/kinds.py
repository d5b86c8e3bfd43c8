"""A kind of figure gives drawings with their captions, or the reason why it cannot be drawn."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from attnbench.analyze.sections import Section, grouped
from attnbench.report.findings import Findings
from attnbench.report.text.latex import escape
from attnbench.report.text.names import one_line
from attnbench.schema.errors import UsageError


@dataclass(frozen=True)
class Drawing:
    """One figure, on one sheet or several; `workload` is empty where it is of the whole run."""

    workload: str
    sheets: Sequence[Figure]
    caption: str


class CannotDrawError(UsageError):
    """The run lacks what a kind shows; the message says what, and what would give it."""


def by_workload(findings: Findings, belongs: Callable[[Section], object], otherwise: str) -> list[list[Section]]:
    """Return by workload the sections that belong, in the order of the run; raises CannotDrawError without any."""
    found = grouped((section.workload, section) for section in findings.sections if belongs(section))
    if not found:
        raise CannotDrawError(otherwise)
    return list(found.values())


def text(seen: Iterable[str], how: Iterable[str] = ()) -> str:
    """Return the text of a file beside a figure: each line once."""
    paragraphs = ["".join(f"{one_line(line)}\n" for line in dict.fromkeys(lines) if line) for lines in (seen, how)]
    return "\n".join(filter(None, paragraphs))


def latex(caption: str, label: str) -> str:
    r"""Return what is to be \input below a figure: its caption and its label; how it was measured follows as a comment."""
    seen, _, how = caption.partition("\n\n")
    comments = "".join(f"% {escape(line)}\n" for line in how.splitlines() if line)
    return f"\\caption{{{escape(' '.join(seen.splitlines()))}}}\n\\label{{fig:{label}}}\n{comments}"
