"""Files that a command is asked to write, their form by their name."""

from collections.abc import Callable, Mapping
from pathlib import Path

from attnbench.cli.errors import UsageError
from attnbench.store.files import write_named, write_within

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
        write_out(out, content(out.suffix.removeprefix(".")))


def write_out(out: Path, content: bytes, option: str = "--out") -> None:
    """The file that an option names, in a folder that is made where there is none; says which. Raises UsageError."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_named(out, content)
    except FileExistsError:
        raise UsageError(f"{option} {out}: {out.parent} is no folder") from None
    except OSError as error:
        raise UsageError(f"{option} {out}: {error.strerror}") from None
    print(out)


def write_below(folder: Path, files: Mapping[str, bytes]) -> None:
    """Several files, by their paths within a folder; says which. Raises UsageError where one cannot be written."""
    for name, content in files.items():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = write_within(folder, name, content)
        except OSError as error:
            raise UsageError(f"--out: cannot write {error.filename}: {error.strerror}") from None
        print(file)
