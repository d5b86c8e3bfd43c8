"""Folders for what is needed for a moment only, among the system's temporary files.

A process that is killed outright leaves its folder behind. So each is locked while its process lives, and whoever makes a new
one removes those that nobody has locked.
"""

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = "attnbench-scratch-"
# as tempfile.mkdtemp names them: a folder that somebody else called so in earnest is left alone
_NAME = re.compile(rf"{_PREFIX}[a-z0-9_]{{8}}")


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that is gone afterwards, however this process ends."""
    sweep()
    folder, held = _made()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if held is not None:
            os.close(held)


def sweep() -> None:
    """Remove the folders of processes of this user that are gone."""
    with suppress(OSError):
        for folder in Path(tempfile.gettempdir()).iterdir():
            if is_scratch(folder) and folder.stat(follow_symlinks=False).st_uid == os.getuid():
                with suppress(OSError):
                    held = _locked(folder)
                    shutil.rmtree(folder, ignore_errors=True)
                    os.close(held)


def is_scratch(folder: Path) -> bool:
    """Whether a folder is one of these, by its name."""
    return _NAME.fullmatch(folder.name) is not None


def _made() -> tuple[Path, int | None]:
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        return folder, _locked(folder)
    except (BlockingIOError, FileNotFoundError):
        # another process took it for one that was left behind, before it was locked
        return _made()
    except OSError:
        # a file system without locks: there nobody can take it for one that was left behind
        return folder, None


def _locked(folder: Path) -> int:
    """Raises BlockingIOError where a living process has the folder, FileNotFoundError where it is gone."""
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        folder.stat()
    except OSError:
        os.close(held)
        raise
    return held
