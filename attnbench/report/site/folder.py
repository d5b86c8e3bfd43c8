"""The folder of a site: refused where it holds anything else, filled beside its place, and put there once it is whole."""

import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attnbench.store.run_folder import StoreError

MARKER = ".attnbench-site"
"""Names all files that were made, so that nothing else is ever removed."""
_ELSEWHERE = "name a folder elsewhere, as site"


class SiteError(ValueError):
    """What no site can be made of, or where none can be; the message says what would be right."""


def check(results: Path, out: Path) -> None:
    """Before anything is read; raises SiteError."""
    if not results.is_dir():
        raise SiteError(f"{results} is no folder; name one with runs below it, as results")
    within, around = results.resolve(), out.resolve()
    if around.is_relative_to(within):
        raise SiteError(f"{out} lies in {results}, whose runs are read; {_ELSEWHERE}")
    if within.is_relative_to(around):
        raise SiteError(f"{results} lies in {out}, which is replaced as a whole; {_ELSEWHERE}")
    refuse_strange(out)


def refuse_strange(out: Path) -> None:
    """Whatever the command did not make is the user's; raises SiteError."""
    if out.is_dir():
        made = _made(out)
        strange = next((name for name in _files(out) if name not in made), None)
        if strange is not None:
            raise SiteError(
                f"{out} holds {strange}, which attnbench site did not make; name a folder that is new, empty or a site, "
                "or move that away"
            )
    elif os.path.lexists(out):
        raise SiteError(f"{out} is there and is no folder; {_ELSEWHERE}")


@contextmanager
def replaced(out: Path) -> Iterator[Path]:
    """A new folder to fill; then it takes the place of what is there, which stays as it is until then.

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
        _swap(new, target, old)
    except OSError as error:
        raise StoreError(f"cannot write {out}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _swap(new: Path, target: Path, old: Path) -> None:
    """Two renames; where anything comes between them, the old site is put back, or is whole beside its place."""
    if not target.exists():
        new.rename(target)
        return
    try:
        target.rename(old)
        new.rename(target)
    except BaseException:
        if old.exists() and not target.exists():
            old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _files(folder: Path) -> Iterator[str]:
    """All that is in it, folders without anything too; links are not followed."""
    for name, inner, files in os.walk(folder):
        here = Path(name)
        links = [each for each in inner if (here / each).is_symlink()]
        lone = [""] if here != folder and not inner and not files else []
        yield from ((here / each).relative_to(folder).as_posix() for each in (*sorted(files), *sorted(links), *lone))


def _made(out: Path) -> frozenset[str]:
    """What the command made there; nothing of a folder that is no site."""
    try:
        names = json.loads((out / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return frozenset()
    return frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list) else frozenset()
