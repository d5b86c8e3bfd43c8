"""Files that a command is asked to write, their form by their name."""

from collections.abc import Callable
from pathlib import Path

from attnbench.cli.errors import UsageError

TABLES = ("md", "tex", "csv")
IMAGES = ("png", "svg", "pdf")


def check_outs(outs: tuple[Path, ...], forms: tuple[str, ...]) -> None:
    """Refuse, before anything is measured, a file of no known form; raises UsageError."""
    for out in outs:
        if out.suffix.removeprefix(".") not in forms:
            raise UsageError(f"--out {out}: the name must end in one of {', '.join(f'.{form}' for form in forms)}")


def write_outs(outs: tuple[Path, ...], content: Callable[[str], bytes]) -> None:
    """One file each, its form by its name; says which. Raises UsageError where one cannot be written."""
    for out in outs:
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_bytes(content(out.suffix.removeprefix(".")))
        except OSError as error:
            raise UsageError(f"--out {out}: {error.strerror}") from None
        print(out)
