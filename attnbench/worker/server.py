"""The warm server: imports torch once, and what a request names, then forks one child per errand and watches it to its end.

It uses neither CUDA nor a thread pool, so that forking stays safe. Requests and replies are JSON lines on one
socket; when that socket closes, or this process is told to end, everything it started is killed. A `fresh` one
imports nothing, and each child is a new interpreter.

A request names the file of an errand, the file for its answer, a time limit and a module to import, if any; the reply says how
the child ended.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import os
import resource
import selectors
import signal
import socket
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_KEEP_OUTPUT = 64 * 1024
_GRACE = 0.5
_FRESH_CHILD = [sys.executable, "-P", "-m", "attnbench.worker.main"]


def main(descriptor: int, *, fresh: bool, cores: list[int]) -> None:
    """Serve requests until the socket closes; on these cores only, where any are named."""
    if cores:
        # before torch is imported, which takes as many threads as there are cores
        os.sched_setaffinity(0, cores)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.signal(signal.SIGTERM, lambda *_: _end())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=descriptor)
    if not fresh:
        _import_for_children("attnbench.worker.passes")
    _send(control, {"ready": os.getpid()})
    for line in control.makefile("rb"):
        request = json.loads(line)
        if request["imports"] and not fresh:
            # what is wrong with it, its children say
            with contextlib.suppress(Exception):
                _import_for_children(request["imports"])
        _send(control, _Child.start(request, control, fresh=fresh).watch())
    _end()


def _import_for_children(module: str) -> None:
    if module not in sys.modules:
        importlib.import_module(module)
        # otherwise a child's first collection would walk all of torch and copy its pages, which takes a seventh of a second
        gc.collect()
        gc.freeze()


def _end() -> None:
    """Kill whatever is left, and end."""
    kill_descendants()
    os._exit(0)


def _send(control: socket.socket, message: dict[str, Any]) -> None:
    control.sendall(json.dumps(message).encode() + b"\n")


@dataclass
class _Child:
    """One forked child, with its output and its time limit."""

    pid: int
    output: int
    marks: int
    control: socket.socket
    timeout: float
    oom_kills: int = field(default_factory=lambda: count_oom_kills())  # noqa: PLW0108 - defined below
    started: float = field(default_factory=time.monotonic)
    tail: bytes = b""
    marked: list[float] = field(default_factory=list)
    """The times at which the child began and ended sampling, by this process' own clock."""

    @classmethod
    def start(cls, request: dict[str, Any], control: socket.socket, *, fresh: bool) -> "_Child":
        (reading, writing), (marks, marking) = os.pipe(), os.pipe()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            control.close()
            _become(request, parent, (writing, marking), fresh=fresh)
        for ours, theirs in ((reading, writing), (marks, marking)):
            os.close(theirs)
            os.set_blocking(ours, False)
        return cls(pid, reading, marks, control, request["timeout"])

    def watch(self) -> dict[str, Any]:
        """Wait for the child's end, a time-out or the end of the parent, then kill all that the child started."""
        timed_out = not self._wait(self.timeout)
        if timed_out:
            # faulthandler then prints where the child hangs
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGABRT)
            self._wait(_GRACE)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        seconds = time.monotonic() - self.started
        kill_descendants()
        self._drain()
        os.close(self.output)
        os.close(self.marks)
        return {
            "exit": os.waitstatus_to_exitcode(status),
            "timed_out": timed_out,
            "oom_kills": count_oom_kills() - self.oom_kills,
            "output": self.tail.decode(errors="replace"),
            "seconds": seconds,
            "marks": self.marked,
        }

    def _wait(self, seconds: float) -> bool:
        """Say whether the child ended within that time; meanwhile its output is read, so that it never has to wait."""
        end = time.monotonic() + seconds
        handle = os.pidfd_open(self.pid)
        try:
            with selectors.DefaultSelector() as selector:
                for source in (handle, self.output, self.marks, self.control):
                    selector.register(source, selectors.EVENT_READ)
                while (left := end - time.monotonic()) > 0:
                    ready = {key.fileobj for key, _ in selector.select(left)}
                    if self.control in ready and not self.control.recv(1, socket.MSG_PEEK):
                        _end()
                    if self.marks in ready:
                        # one byte where sampling begins, and one where it ends; nothing at the end of the stream
                        with contextlib.suppress(BlockingIOError):
                            now, marks = time.monotonic(), os.read(self.marks, 64)
                            self.marked += [now] * len(marks)
                            if not marks:
                                selector.unregister(self.marks)
                    if self.output in ready and not self._drain():
                        selector.unregister(self.output)
                    if handle in ready:
                        return True
                return False
        finally:
            os.close(handle)

    def _drain(self) -> bool:
        """Read what the child has printed and keep its last part; return False at the end of the stream."""
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self.output, 1 << 16):
                self.tail = (self.tail + data)[-_KEEP_OUTPUT:]
            return False
        return True


def _become(request: dict[str, Any], parent: int, pipes: tuple[int, int], *, fresh: bool) -> None:
    """In the child: leave the server's process group, die with the server, and do the errand. Never returns."""
    writing, marking = pipes
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):
            # if the machine runs out of memory, the kernel kills the child and never the runner
            Path("/proc/self/oom_score_adj").write_text("1000")
        os.dup2(writing, 1)
        os.dup2(writing, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        if fresh:
            os.set_inheritable(marking, True)
            os.execv(_FRESH_CHILD[0], [*_FRESH_CHILD, request["errand"], request["out"], str(marking)])  # noqa: S606
        from attnbench.worker.main import serve

        serve(Path(request["errand"]), Path(request["out"]), marking)
        sys.stdout.flush()
        os._exit(0)
    except BaseException:  # noqa: BLE001 - the child must end here and say why, whatever happens
        import traceback

        traceback.print_exc()
        os._exit(1)


def kill_descendants() -> None:
    """Kill every process below this one; since this is a subreaper, that includes processes that left their group."""
    import psutil

    for _ in range(20):
        below = psutil.Process().children(recursive=True)
        for process in below:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not below:
            return
        time.sleep(0.01)


def count_oom_kills() -> int:
    """Return how often the kernel killed for lack of memory, in this control group or else on this machine."""
    from attnbench.measure.host_conditions import control_groups, counted

    files = [*(group / "memory.events" for group in control_groups()), Path("/proc/vmstat")]
    found = (counted(file, "oom_kill") for file in files)
    return next((count for count in found if count is not None), 0)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    descriptor, kind, *cores = sys.argv[1:]
    main(int(descriptor), fresh=kind == "fresh", cores=list(map(int, cores)))
