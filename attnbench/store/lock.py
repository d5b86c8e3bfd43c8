"""The lock of a run folder: one writer at a time, a stale lock is taken over and said."""

import fcntl
import json
import os
import socket
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from attnbench.store.files import open_to_write


class LockedError(RuntimeError):
    """Another run writes to this folder; the message names its process and host."""


@dataclass
class FolderLock:
    """Held while open. `took_over` says whose stale lock was found, if any; the kernel frees a dead holder's lock."""

    folder: Path
    took_over: str | None = None
    _file: IO[str] | None = field(default=None, repr=False)

    def __enter__(self) -> Self:
        try:
            file = os.fdopen(
                open_to_write(self.folder / "run.lock", os.O_RDWR | os.O_CREAT | os.O_APPEND), "a+", encoding="utf-8"
            )
        except OSError as error:
            raise LockedError(f"{self.folder} cannot be locked ({error.strerror})") from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(file)
            file.close()
            raise LockedError(f"{self.folder} is being written by {holder or 'another process'}") from None
        except OSError as error:
            file.close()
            raise LockedError(f"{self.folder} cannot be locked ({error.strerror}); use a local folder") from None
        # read under the lock: before it, a holder may still be leaving in good order
        self.took_over = _holder(file)
        file.truncate(0)
        file.write(json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": datetime.now(UTC).isoformat()}))
        file.flush()
        self._file = file
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._file is not None
        # emptied, not removed: removing it would let two processes lock two files of one name
        self._file.truncate(0)
        self._file.close()


def _holder(file: IO[str]) -> str | None:
    """Who wrote the lock file, in words; None where it is empty."""
    file.seek(0)
    try:
        data = json.loads(file.read() or "null")
        return f"process {data['pid']} on {data['host']} since {data['since']}" if data else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return "an unknown process"
