"""The lock of a run folder: it has one writer at a time, and taking over a stale lock is reported."""

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from attnbench.schema.errors import UsageError
from attnbench.store.files import open_to_read, open_to_write


class LockedError(UsageError):
    """Another run writes to this folder; the message names its process and host."""


@contextmanager
def locked(file: Path, *, shared: bool = False) -> Iterator[str | None]:
    """Hold the lock of the folder in which `file` lies; the kernel frees the lock of a process that dies.

    A `shared` lock keeps out only who wants it for itself. Gives the name of the process whose stale lock was found, if any.
    Raises LockedError, and OSError where the disk is full.
    """
    try:
        handle = os.fdopen(open_to_write(file, os.O_RDWR | os.O_CREAT | os.O_APPEND), "a+", encoding="utf-8")
    except OSError as error:
        raise LockedError(f"{file.parent} cannot be locked ({error.strerror})") from None
    with handle:
        try:
            fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LockedError(f"{file.parent} is being written by {_holder(handle) or 'another process'}") from None
        except OSError as error:
            raise LockedError(f"{file.parent} cannot be locked ({error.strerror}); use a local folder") from None
        if shared:
            yield None
            return
        # read once the lock is ours: before that, the last holder may still be emptying the file
        took_over = _holder(handle)
        handle.truncate(0)
        own = {"pid": os.getpid(), "host": socket.gethostname(), "since": datetime.now(UTC).isoformat()}
        try:
            os.write(handle.fileno(), json.dumps(own).encode())
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(file)) from None
        try:
            yield took_over
        finally:
            # emptied and not removed: otherwise two processes could lock two files of the same name
            handle.truncate(0)


def refuse_unended(run: Path) -> None:
    """Raise LockedError for a run that is still being written, or a part of it."""
    for lock in run.glob("run*.lock"):
        # no lock file, or a file system without locks: nobody can be asked
        with suppress(OSError):
            try:
                with open_to_read(lock) as file:
                    # a run that is still going on holds it
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LockedError(f"{run} is still being written; take it when `attnbench run` has ended") from None


def _holder(file: IO[str]) -> str | None:
    """Name the process that wrote the lock file; None where the file is empty."""
    file.seek(0)
    try:
        data = json.loads(file.read() or "null")
        return f"process {data['pid']} on {data['host']} since {data['since']}" if data else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return "an unknown process"
