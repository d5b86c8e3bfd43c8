"""The lock of a run folder: it has one writer at a time, and taking over a stale lock is reported."""

import fcntl
import json
import os
import socket
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Self

from attnbench.schema.errors import UsageError
from attnbench.store.files import open_to_write


class LockedError(UsageError):
    """Another run writes to this folder; the message names its process and host."""


@dataclass
class FolderLock:
    """A lock that is held within `with`; the kernel frees the lock of a process that dies.

    `took_over` names the process whose stale lock was found, if any.
    """

    file: Path
    """Lies in the folder, and stays there empty."""
    took_over: str | None = None
    _file: IO[str] | None = field(default=None, repr=False)

    def __enter__(self) -> Self:
        try:
            descriptor = open_to_write(self.file, os.O_RDWR | os.O_CREAT | os.O_APPEND)
            file = os.fdopen(descriptor, "a+", encoding="utf-8")
        except OSError as error:
            raise LockedError(f"{self.file.parent} cannot be locked ({error.strerror})") from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(file)
            file.close()
            raise LockedError(f"{self.file.parent} is being written by {holder or 'another process'}") from None
        except OSError as error:
            file.close()
            raise LockedError(f"{self.file.parent} cannot be locked ({error.strerror}); use a local folder") from None
        # read once the lock is ours: before that, the last holder may still be emptying the file
        self.took_over = _holder(file)
        file.truncate(0)
        file.write(json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": datetime.now(UTC).isoformat()}))
        file.flush()
        self._file = file
        return self

    def __exit__(self, *_: object) -> None:
        assert self._file is not None
        # emptied and not removed: otherwise two processes could lock two files of the same name
        self._file.truncate(0)
        self._file.close()


def _holder(file: IO[str]) -> str | None:
    """Name the process that wrote the lock file; None where the file is empty."""
    file.seek(0)
    try:
        data = json.loads(file.read() or "null")
        return f"process {data['pid']} on {data['host']} since {data['since']}" if data else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return "an unknown process"
