"""The parent's side of an errand: whatever happens to the child, an answer comes back.

The server that forks the children is started at its first use, and again after it has died.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnbench.schema.errand import ANSWER, Answer, Errand, Job, Pass
from attnbench.schema.errors import AttnbenchError
from attnbench.schema.noun import in_words
from attnbench.schema.outcome import SERVER, Failed, Measured, Status
from attnbench.schema.units import seconds
from attnbench.store.scratch import scratch
from attnbench.worker.portable import portable
from attnbench.worker.portion import ALL, Portion

_CLOCKS_APART, _LATENCY, _SAMPLED = 0.1, 0.1, 0.5
"""Limits for the time in which samples are taken: the share by which two clocks may differ, plus the seconds that a byte takes
from process to process on a busy machine; and the least share of it to which samples add up."""
_START_TIMEOUT, _STARTS, _EXIT_TIMEOUT = 120.0, 3, 1.0
_SLACK = 10.0
_LAST_LINES = 12


class ServerError(AttnbenchError):
    """The server cannot be started or has died."""


class _EndedError(ServerError):
    """The server was ended by a signal."""


@dataclass(frozen=True)
class Ending:
    """The end of a child, as the server reports it."""

    exit: int
    timed_out: bool
    oom_kills: int
    output: str
    seconds: float
    marks: tuple[float, ...] = ()
    """The times at which sampling began and ended, by the server's clock."""


@dataclass
class Isolation(AbstractContextManager["Isolation"]):
    """Runs errands, each in its own process; `fresh` starts a new interpreter for each instead of forking a warm one.

    Modules are looked for in `folder` (or else the current folder), then in `packages`, then where they are installed.
    """

    fresh: bool = False
    folder: Path | None = None
    packages: Path | None = None
    portion: Portion = ALL
    """The part of this machine that the processes may use."""
    remark: str = field(default="", init=False)
    """What went wrong when the server was started; it is put into the facts of every later answer to a job."""
    _is_cut: bool = field(default=False, init=False, repr=False)
    _fell_back: bool = field(default=False, init=False, repr=False)
    _server: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    _socket: socket.socket | None = field(default=None, repr=False)

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, errand: Errand, timeout: float) -> tuple[Answer, float]:
        """Return the answer and the seconds that the process lived; the answer is Failed for whatever goes wrong.

        Raises AttnbenchError where an answer finds no room on the disk, which is nobody's failure.
        """
        with scratch() as folder:
            question, out = folder / "errand.json", folder / "answer.json"
            question.write_text(errand.model_dump_json(), encoding="utf-8")
            # what takes seconds to import, the server imports once, before it forks; on a GPU its children do so themselves: to
            # look for devices may start CUDA, which no fork survives
            slow = "attnbench.hf" if isinstance(errand, Job) and errand.cell.model and errand.cell.device == "cpu" else ""
            try:
                ending = self._request({"errand": str(question), "out": str(out), "timeout": timeout, "imports": slow})
            except ServerError as error:
                self.close()
                return Failed(status=Status.CRASHED, reason=str(error)), 0.0
            answer: Answer
            try:
                answer = ANSWER.validate_json(out.read_bytes())
            except OSError:
                _insist_on_room(folder)
                answer = post_mortem(ending, timeout)
            except ValueError as error:
                answer = Failed(status=Status.ERROR, reason=f"its answer cannot be read: {in_words(error)[:400]}")
            if isinstance(answer, Measured) and isinstance(errand, Job) and errand.phase is Pass.TIME:
                answer = held_against(answer, ending.marks)
            if self.remark and isinstance(answer, Measured | Failed):
                changed: dict[str, object] = {"facts": {**answer.facts, SERVER: self.remark}}
                if isinstance(answer, Measured) and self._fell_back:
                    changed["flags"] = (*answer.flags, "fresh_interpreter")
                answer = answer.model_copy(update=changed)
            return answer, ending.seconds

    def cut(self) -> None:
        """End an errand that another thread waits for: it is told that the server has died."""
        self._is_cut = True
        if (connected := self._socket) is not None:
            with suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the server and all that it started."""
        if self._socket is not None:
            self._socket.close()
        if self._server is not None:
            self._server.terminate()
            try:
                self._server.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait()
        self._server = self._socket = None

    def _request(self, request: dict[str, Any]) -> Ending:
        if self._server is not None and not self._is_cut:
            with suppress(OSError):
                return self._sent(request)
            # it died between two errands: this one has not begun, and another server takes it
            self.close()
        if self._server is None:
            self._start()
        try:
            return self._sent(request)
        except OSError as error:
            raise ServerError(f"the worker's server died: {error}") from error

    def _sent(self, request: dict[str, Any]) -> Ending:
        """Send a request and wait for its end. Raises OSError where it could not be sent, and ServerError afterwards."""
        assert self._socket is not None
        # the server ends the child in time; this limit is for the case that the server itself hangs
        importing = _START_TIMEOUT if request["imports"] else 0.0
        self._socket.settimeout(request["timeout"] + importing + _SLACK)
        self._socket.sendall(json.dumps(request).encode() + b"\n")
        return Ending(**self._reply())

    def _start(self) -> None:
        """Start the server: again if it is ended meanwhile, and without torch if it cannot import that."""
        why = ""
        for _ in range(_STARTS):
            try:
                self._launch()
                return
            except ServerError as error:
                why, ended = str(error), isinstance(error, _EndedError)
            if not ended:
                break
            self.remark = f"{why} while it started, and was started anew"
        if self.fresh:
            raise ServerError(why)
        self.fresh = self._fell_back = True
        self.remark = f"{why}; so each process was a new interpreter, not a fork of a warm one"
        self._launch()

    def _launch(self) -> None:
        if self._is_cut:
            raise ServerError("the errand was cut")
        environment = dict(os.environ)
        if self.packages is not None:
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(self.packages), os.environ.get("PYTHONPATH"))))
        if self.portion.gpu:
            environment["CUDA_VISIBLE_DEVICES"] = self.portion.gpu
        ours, theirs = socket.socketpair()
        with theirs:
            arguments = [
                sys.executable,
                # a file in the folder may have the name of a module of Python or torch
                "-P",
                "-m",
                "attnbench.worker.server",
                str(theirs.fileno()),
                "fresh" if self.fresh else "warm",
                *map(str, self.portion.cores),
            ]
            self._server = subprocess.Popen(
                arguments,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd=self.folder,
                env=environment,
            )
        ours.settimeout(_START_TIMEOUT)
        self._socket = ours
        try:
            self._reply()
        except ServerError:
            failed = self._how_it_failed()
            self.close()
            raise failed from None

    def _how_it_failed(self) -> ServerError:
        """Return an error that says how a server ended that did not become ready."""
        assert self._server is not None
        try:
            code = self._server.wait(_EXIT_TIMEOUT)
        except subprocess.TimeoutExpired:
            return ServerError(f"the worker's server was not ready within {_START_TIMEOUT:g} s")
        if code > 0:
            return ServerError(f"the worker's server could not be started with torch in it (exit code {code})")
        # it ends with 0 after SIGTERM
        return _EndedError(f"the worker's server was ended by {_signal_name(-code or signal.SIGTERM)}")

    def _reply(self) -> dict[str, Any]:
        assert self._socket is not None
        try:
            with self._socket.makefile("rb") as replies:
                line = replies.readline()
        except TimeoutError as error:
            raise ServerError("the worker's server does not answer") from error
        except OSError as error:
            raise ServerError(f"the worker's server died: {error}") from error
        if not line:
            raise ServerError("the worker's server died")
        reply: dict[str, Any] = json.loads(line)
        return reply


def held_against(answer: Measured, marks: Sequence[float]) -> Measured | Failed:
    """Return the samples if the clock of another process agrees, for a method may have changed the clocks of its own."""
    claimed, calls = answer.facts.get("sampling_seconds"), answer.facts.get("batch")
    added = sum(answer.samples["time"].values) * (calls if isinstance(calls, int) else 1)
    if len(marks) != 2 or not isinstance(claimed, float):
        reason = "when it was sampled cannot be seen from outside its process"
    elif abs((passed := marks[1] - marks[0]) - claimed) > _CLOCKS_APART * passed + _LATENCY:
        reason = f"by its own clock sampling took {seconds(claimed)}, by another process' {seconds(passed)}"
    elif answer.facts.get("clock") == "wall" and added < _SAMPLED * (passed - _LATENCY):
        reason = f"its samples add up to {seconds(added)} of the {seconds(passed)} in which they were taken"
    else:
        return answer
    return Failed(status=Status.UNFAIR, reason=reason, samples=answer.samples, facts=answer.facts)


def _insist_on_room(folder: Path) -> None:
    """Raise AttnbenchError where nothing more can be written to a folder: the next answers would be lost too."""
    try:
        (folder / "room").write_bytes(bytes(2**16))
    except OSError as error:
        raise AttnbenchError(
            f"{folder.parent}: an answer cannot be written: {error.strerror}; make room, or set TMPDIR"
        ) from error


def post_mortem(ending: Ending, timeout: float) -> Failed:
    """Return the status and the reason of a child that left no answer."""
    # the last lines of its output, or the first lines of faulthandler's traceback, which are the innermost
    _, fatal, frames = ending.output.rpartition("Fatal Python error")
    lines = (fatal + frames).splitlines()[:_LAST_LINES] if fatal else ending.output.splitlines()[-_LAST_LINES:]
    detail = portable("\n".join(lines))
    if ending.timed_out:
        return Failed(status=Status.TIMEOUT, reason=f"no answer within {timeout:g} s", detail=detail)
    if ending.exit == -signal.SIGKILL and ending.oom_kills > 0:
        return Failed(status=Status.OOM_HOST, reason="killed by the kernel for lack of memory", detail=detail)
    if "std::bad_alloc" in detail:
        return Failed(status=Status.OOM_HOST, reason="memory limit of this cell reached: std::bad_alloc", detail=detail)
    if ending.exit < 0:
        return Failed(status=Status.CRASHED, reason=_signal_name(-ending.exit), detail=detail)
    return Failed(status=Status.ERROR, reason=f"the process ended with exit code {ending.exit} and no answer", detail=detail)


def _signal_name(number: int) -> str:
    try:
        return f"{signal.Signals(number).name} (signal {number})"
    except ValueError:
        return f"signal {number}"
