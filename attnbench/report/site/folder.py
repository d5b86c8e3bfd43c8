"""The folder of a site: refused where it holds anything else, filled beside its place, and put there once it is whole."""

import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attnbench.schema.errors import UsageError
from attnbench.store.run_folder import StoreError

MARKER = ".attnbench-site"
"""A file that names all files that were made, so that nothing else is ever removed."""
_ELSEWHERE = "name a folder elsewhere, as site"


class SiteError(UsageError):
    """There are no runs to make a site of, or it cannot be where it should; the message says what would be right."""


def check(results: Path, out: Path) -> None:
    """Refuse folders that lie within each other, and files of the user's in the place of the site; raises SiteError."""
    if not results.is_dir():
        raise SiteError(f"{results} is no folder; name one with runs below it, as results")
    within, around = results.resolve(), out.resolve()
    if around.is_relative_to(within):
        raise SiteError(f"{out} lies in {results}, whose runs are read; {_ELSEWHERE}")
    if within.is_relative_to(around):
        raise SiteError(f"{results} lies in {out}, which is replaced as a whole; {_ELSEWHERE}")
    refuse_strange(out)


def refuse_strange(out: Path) -> None:
    """Refuse a folder with anything that the command did not make; raises SiteError."""
    if not out.is_dir():
        if os.path.lexists(out):
            raise SiteError(f"{out} is there and is no folder; {_ELSEWHERE}")
        return
    try:
        names = json.loads((out / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        names = None
    made = frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list) else frozenset()
    strange = next((name for name in _files(out) if name not in made), None)
    if strange is not None:
        raise SiteError(
            f"{out} holds {strange}, which attnbench site did not make; name a folder that is new, empty or a site, "
            "or move that away"
        )


@contextmanager
def replaced(out: Path) -> Iterator[Path]:
    """Give a new folder to fill; then it takes the place of what is there, which stays as it is until then.

    Raises StoreError where it cannot be written, SiteError where something strange came meanwhile.
    """
    target = out.resolve()
    token = secrets.token_hex(4)
    new, old = (target.with_name(f".{target.name}.{token}.{word}") for word in ("partial", "old"))
    try:
        new.mkdir(parents=True)
        yield new
        (new / MARKER).write_text(json.dumps(sorted([*_files(new), MARKER]), indent=0), encoding="utf-8")
        refuse_strange(target)
        if target.exists():
            target.rename(old)
        new.rename(target)
    except OSError as error:
        raise StoreError(f"cannot write {out}: {error.strerror or error}") from error
    finally:
        # whatever came between the two renames, the old site is put back, or is whole beside its place
        if old.exists() and not target.exists():
            old.rename(target)
        shutil.rmtree(old, ignore_errors=True)
        shutil.rmtree(new, ignore_errors=True)


def _files(folder: Path) -> Iterator[str]:
    """List all that is in a folder, folders without anything too; links are not followed."""
    for name, inner, files in os.walk(folder):
        here = Path(name)
        links = [each for each in inner if (here / each).is_symlink()]
        lone = [""] if here != folder and not inner and not files else []
        yield from ((here / each).relative_to(folder).as_posix() for each in (*sorted(files), *sorted(links), *lone))
