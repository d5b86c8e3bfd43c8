"""All errors in one hierarchy; each kind has the exit code of a command that ends with it."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import ClassVar

_PLACED = frozenset({"cell", "name", "pattern"})
"""Arguments that commands know by their place: `rerun` and `trace`, `suites copy`, `methods`."""


class AttnbenchError(Exception):
    """The message says what went wrong and what to do; by itself it means that the machine or the disk failed."""

    exit_code: ClassVar[int] = 1


class UsageError(AttnbenchError):
    """Bad input; the message says where it is and what would be right."""

    exit_code = 2


class ArgumentError(UsageError):
    """An argument of a function, which is an option of the command of the same name, cannot be taken as it was given."""

    def __init__(self, argument: str, given: object, problem: str) -> None:
        super().__init__(argument, given, problem)
        self.argument, self.given, self.problem = argument, given, problem
        if isinstance(given, list | tuple):
            self.given = ",".join(map(str, given))

    def __str__(self) -> str:
        return f"{self.argument}={self.given!r}: {self.problem}"

    @property
    def as_option(self) -> str:
        """The same for who reads a terminal: `--margin 5x: write a share`, and `CELL 0f3: …` of what no option names there."""
        name = self.argument.upper() if self.argument in _PLACED else f"--{self.argument.replace('_', '-')}"
        return f"{name} {self.given}: {self.problem}"


def did_you_mean(written: str, known: Iterable[str], most: int = 1) -> str:
    """Return `did you mean 'a', 'b' or 'c'? ` with so many of the nearest names, or nothing where none is near."""
    near = [repr(each) for each in get_close_matches(written, list(known), n=most)]
    return f"did you mean {' or '.join([', '.join(near[:-1]), near[-1]] if len(near) > 1 else near)}? " if near else ""
