"""The suites that ship: what each is for, and a copy to change."""

from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path

from attnbench.schema.errors import UsageError
from attnbench.session.asked import one_of
from attnbench.suite.load import shipped


def suites() -> Mapping[str, str]:
    """Say what each suite that ships is for, in the words that its file begins with, by name."""
    found = {}
    for name, file in shipped().items():
        heading = takewhile(lambda line: line.startswith("#"), file.read_text(encoding="utf-8").splitlines())
        found[name] = " ".join(line.removeprefix("#").strip() for line in heading)
    return found


def copy_suite(name: str, to: str | Path | None = None) -> Path:
    """Copy a suite that ships into a file that is not there yet, by default NAME.yaml; its path. Raises UsageError."""
    source = shipped()[one_of(shipped(), name, "name")]
    file = Path(to or source.name)
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(source.read_text(encoding="utf-8"))
    except FileExistsError:
        raise UsageError(f"{file} is there already, and is not overwritten; name another file") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from None
    return file
