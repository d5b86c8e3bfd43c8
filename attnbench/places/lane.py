"""A lane: at most one measurement at a time on one device, among all processes of one user on this machine."""

import fcntl
import json
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from attnbench.schema.errand import Surroundings
from attnbench.schema.errors import AttnbenchError

_AGAIN = 0.01
"""Seconds until a lock that is taken is asked for again."""


class LaneError(AttnbenchError):
    """The lock file of a device cannot be used; the message says which and why."""


class LaneTakenError(AttnbenchError):
    """Another process measures on the device, and waiting is not wanted, so try later; the message names the process."""

    # EX_TEMPFAIL of sysexits.h
    exit_code = 75


@dataclass
class Lane:
    """A lock that is taken for each measurement and given back after it, so that several runs take turns.

    The lock is a file in a folder that is the same for all processes of a user, wherever their temporary files are. The
    kernel frees it when its holder dies. The next in turn holds a second lock: without it, the process that gives the device
    back would mostly be the first to take it again.
    """

    wait: bool = True
    """If False, a device that is taken raises LaneTakenError before the first measurement; later ones wait all the same."""
    say: Callable[[str], object] = id
    """Is told which process this one waits for, once for each."""
    command: str = "attnbench"
    """What the processes are told that wait for this one."""
    part: str = ""
    """The cores that are measured on (`cores 0,1`), where several lanes share the CPU; who takes one of them, or all, waits."""
    _told: set[str] = field(default_factory=set, init=False, repr=False)
    _since: str = field(default="", init=False, repr=False)
    _is_cut: threading.Event = field(default_factory=threading.Event, init=False, repr=False)

    def cut(self) -> None:
        """End the waiting of another thread for this lane, by a LaneError."""
        self._is_cut.set()

    @contextmanager
    def held(self, surroundings: Surroundings) -> Iterator[None]:
        """Wait for the device, then keep others waiting. Raises LaneError, LaneTakenError."""
        name = str(surroundings.facts.get("gpu_uuid") or "cpu")
        with ExitStack() as opened:
            device = self._one(opened, name, fcntl.LOCK_SH if self.part else fcntl.LOCK_EX)
            # one for each core, since another run may have other lanes; by rising number, or two might wait for each other
            for core in sorted(map(int, re.findall(r"\d+", self.part))):
                self._one(opened, f"{name} core {core}", fcntl.LOCK_EX)
            self.wait = True
            yield
            if not self.part:
                # emptied, so that this process is not named as the holder before the next one has signed
                os.ftruncate(device, 0)

    def _one(self, opened: ExitStack, name: str, kind: int) -> int:
        """Wait for one lock, and sign it."""
        file = _folder() / f"attnbench-lane-{os.getuid()}-{re.sub(r'[^A-Za-z0-9-]', '_', name)}.lock"
        device = opened.enter_context(_opened(file))
        with _opened(file.with_suffix(".next")) as turn:
            try:
                self._take(turn, device, fcntl.LOCK_EX)
                self._take(device, device, kind)
                # signed before the next in turn can ask who has the device
                self._since = self._since or datetime.now(UTC).isoformat(timespec="seconds")
                holder = json.dumps({"pid": os.getpid(), "command": self.command, "since": self._since}).encode()
                # cut to its length, not emptied before: a file system may write an emptied file out when it is closed
                os.pwrite(device, holder, 0)
                os.ftruncate(device, len(holder))
            except OSError as error:
                raise _unusable(file, error) from None
        return device

    def _take(self, lock: int, device: int, kind: int) -> None:
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(lock, kind | fcntl.LOCK_NB)
                return
            holder = _holder(device)
            if not self.wait:
                who = holder or "another process"
                raise LaneTakenError(f"{who} is measuring on this device; leave out --no-wait to wait for it")
            if holder and holder not in self._told:
                self._told.add(holder)
                self.say(f"waiting for {holder}, which is measuring on this device")
            # not flock's own wait, which another thread could not end
            if self._is_cut.wait(_AGAIN):
                raise LaneError("waiting for the device was ended")


@contextmanager
def _opened(file: Path) -> Iterator[int]:
    try:
        # links are not followed: in a folder that all users share, somebody else may have made one
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise _unusable(file, error) from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _folder() -> Path:
    """Return the user's runtime folder; /tmp where the system gives none."""
    for name in (os.environ.get("XDG_RUNTIME_DIR"), f"/run/user/{os.getuid()}"):
        # after `su` the variable may still name the folder of another user
        if name and os.access(name, os.W_OK | os.X_OK) and Path(name).stat().st_uid == os.getuid():
            return Path(name)
    return Path("/tmp")  # noqa: S108 - the file's name is fixed on purpose, and is opened with care


def _holder(device: int) -> str | None:
    """Name the process that signed the lock file; None where none has."""
    try:
        data = json.loads(os.pread(device, 1 << 16, 0))
        return f"process {data['pid']} ({data['command']}; since {data['since']})"
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _unusable(file: Path, error: OSError) -> LaneError:
    return LaneError(
        f"the lock file {file}, by which only one run measures at a time, cannot be used ({error.strerror}); "
        "set XDG_RUNTIME_DIR to a folder of your own on a local disk"
    )
