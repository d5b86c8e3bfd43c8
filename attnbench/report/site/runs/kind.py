"""What a run folder is of: a suite that was run, or what another command measured and left."""

import shlex
from enum import StrEnum

from attnbench.schema.run import RunInfo


class Kind(StrEnum):
    """In the order in which the index lists them."""

    RUN = "run"
    COMPARISON = "comparison"
    CROSSOVER = "crossover"
    LIMITS = "limits"
    SELFCHECK = "selfcheck"

    @property
    def heading(self) -> str:
        """Above all of a kind."""
        return _HEADINGS[self]


_HEADINGS = {
    Kind.RUN: "Runs",
    Kind.COMPARISON: "Comparisons of two commits",
    Kind.CROSSOVER: "Crossovers",
    Kind.LIMITS: "Longest sequences, largest batches",
    Kind.SELFCHECK: "Selfchecks",
}
_COMMANDS = {"crossover": Kind.CROSSOVER, "maxlen": Kind.LIMITS, "selfcheck": Kind.SELFCHECK}


def kind_of(run: RunInfo) -> Kind:
    """By the command that made it; one side of a comparison says so itself."""
    return Kind.COMPARISON if run.interleaved else _COMMANDS.get(_command(run.command), Kind.RUN)


def _command(line: str) -> str:
    """`run` of `attnbench run quick`; empty where it is no such line."""
    try:
        words = shlex.split(line)
    except ValueError:
        return ""
    return words[1] if len(words) > 1 else ""
