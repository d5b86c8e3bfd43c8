"""Temporary folders, among the system's temporary files.

A process that is killed outright leaves its folder behind. So each folder is locked while its process lives, and whoever makes
a new one removes those that nobody has locked.
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
# exactly the names that tempfile.mkdtemp makes, so that no other folder is ever removed
_NAME = re.compile(rf"{_PREFIX}[a-z0-9_]{{8}}")


@contextmanager
def scratch() -> Iterator[Path]:
    """Make a folder that is removed afterwards, and remove those of processes that are gone."""
    with suppress(OSError):
        for left in Path(tempfile.gettempdir()).iterdir():
            # those of other users are theirs to remove
            if is_scratch(left) and left.stat(follow_symlinks=False).st_uid == os.getuid():
                with suppress(OSError):
                    lock = _locked(left)
                    shutil.rmtree(left, ignore_errors=True)
                    os.close(lock)
    folder, held = _made()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if held is not None:
            os.close(held)


def is_scratch(folder: Path) -> bool:
    """Say whether a folder is one of these, by its name."""
    return _NAME.fullmatch(folder.name) is not None


def _made() -> tuple[Path, int | None]:
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        return folder, _locked(folder)
    except (BlockingIOError, FileNotFoundError):
        # before it was locked, another process took it for a folder that was left behind
        return _made()
    except OSError:
        # a file system without locks: there nobody can take it for a folder that was left behind
        return folder, None


def _locked(folder: Path) -> int:
    """Lock a folder. Raises BlockingIOError where a living process has it, FileNotFoundError where it is gone."""
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        folder.stat()
    except OSError:
        os.close(held)
        raise
    return held
