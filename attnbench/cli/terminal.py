"""The terminal of a user: progress and errors on stderr, answers on stdout, files by their names; and how a command ends."""

import codecs
import errno
import os
import shlex
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import typer

from attnbench.schema.errors import ArgumentError, AttnbenchError, UsageError
from attnbench.session.reporter import Reporter
from attnbench.store.files import write_named, write_within

if TYPE_CHECKING:
    from rich.progress import Progress

USAGE, FAILED = UsageError.exit_code, AttnbenchError.exit_code
TABLES, IMAGES = ("md", "tex", "csv"), ("png", "svg", "pdf")


@contextmanager
def explained(failed: int = FAILED) -> Iterator[None]:
    """Print errors on stderr and exit with the code of their kind, or with `failed` for the machine, the disk and faults.

    What was printed on stdout has been taken by then, or that is such an error too. A command whose exit code 1 is a verdict
    names another code for what failed.
    """
    try:
        try:
            yield
        finally:
            _print_the_rest()
    except Exception as error:  # noqa: BLE001 - whatever it is, the exit code must say that something failed
        # a stderr that takes nothing changes no exit code
        with suppress(OSError):
            if not isinstance(error, AttnbenchError | OSError):
                traceback.print_exc()
            # who reads the output may leave when that is enough
            elif not isinstance(error, BrokenPipeError):
                print(f"error: {_words(error)}", file=sys.stderr)
        # a name that is too long for any file was never one
        too_long = isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG
        code = error.exit_code if isinstance(error, AttnbenchError) else USAGE if too_long else FAILED
        sys.exit(failed if code == FAILED else code)


def _words(error: Exception) -> str:
    """Say what went wrong, and with which file; without what a terminal would take for a command."""
    text = error.as_option if isinstance(error, ArgumentError) else str(error)
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in text)


def _print_the_rest() -> None:
    """Hand over what was printed and is still in memory; raises OSError where it is not taken, and then drops it."""
    try:
        sys.stdout.flush()
    except OSError as error:
        # else the interpreter would try once more as it ends, and have the last word
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise OSError(error.errno, error.strerror, "standard output") from None


class Interrupted(KeyboardInterrupt):
    """SIGINT, SIGTERM or SIGHUP came; `exit_code` is the shell's convention, 128 + signal."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


class Terminal(Reporter):
    """Writes to stderr: a bar with the time left on a terminal, one line a block elsewhere."""

    def __init__(self, *, yes: bool = False) -> None:
        # rich takes its time to import, and `attnbench --help` needs none of it
        from rich.console import Console

        self.command = shlex.join(["attnbench", *sys.argv[1:]])
        self._console, self._yes = Console(stderr=True, highlight=False), yes
        self._bar: Progress | None = None
        # rich would leave with 1 where nobody reads any more
        setattr(self._console, "on_broken_pipe", self._fall_silent)  # noqa: B010 - mypy allows no other way

    def _fall_silent(self) -> None:
        self._console.quiet = True

    @contextmanager
    def _as_far_as_it_is_taken(self) -> Iterator[None]:
        """Go on without words where the terminal is gone or its log takes no more: a run is worth more than its progress."""
        try:
            yield
        except OSError:
            self._fall_silent()

    def say(self, text: str) -> None:
        """Print one line, above the bar where there is one."""
        line = "".join(letter if letter.isprintable() else " " for letter in text)
        with self._as_far_as_it_is_taken():
            self._console.print(line, markup=False, soft_wrap=True)

    def step(self, doing: str, done: int, total: int, left: str = "") -> None:
        """Draw the bar."""
        if not self._console.is_terminal:
            return
        with self._as_far_as_it_is_taken():
            if self._bar is None:
                from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

                # drawn here only: a thread that redraws would run beside the measurement
                columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[left]}")
                self._bar = Progress(*columns, console=self._console, transient=True, auto_refresh=False)
                self._bar.add_task(doing, total=total, completed=done, left=left)
                self._bar.start()
            self._bar.update(self._bar.task_ids[0], description=doing, completed=done, total=total, left=left, refresh=True)

    def block(self, text: str) -> None:
        """Print a line where there is no bar."""
        if not self._console.is_terminal:
            self.say(text)

    def stop(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            with self._as_far_as_it_is_taken():
                self._bar.stop()
            self._bar = None

    def agrees(self, question: str) -> bool:
        """Ask, where there is somebody to answer."""
        return self._yes or (sys.stdin is not None and sys.stdin.isatty() and typer.confirm(question, abort=True))


@contextmanager
def at_work(*, yes: bool = False) -> Iterator[Terminal]:
    """Leave with 128 + signal on the first SIGINT, SIGTERM or SIGHUP, once all there is is saved; on the second one at once."""
    heard = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        # under nohup it is ignored, and stays so
        heard.append(signal.SIGHUP)

    def first(number: int, _frame: FrameType | None) -> None:
        for each in heard:
            signal.signal(each, second)
        raise Interrupted(number)

    def second(number: int, _frame: FrameType | None) -> None:
        # the server sees its socket close and kills what it started; the last record is whole or cut, never lost
        os._exit(128 + number)

    before = {each: signal.signal(each, first) for each in heard}
    try:
        yield Terminal(yes=yes)
    except Interrupted as interruption:
        # a terminal that was closed takes no words
        with suppress(OSError):
            print(f"\ninterrupted ({interruption})", file=sys.stderr)
        sys.exit(interruption.exit_code)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def print_text(text: Callable[..., str]) -> None:
    """Print what `text(unicode=…)` gives for this terminal."""
    print(text(unicode="utf" in (sys.stdout.encoding or "ascii").lower()))


def speak_plainly() -> None:
    """Let stdout and stderr take any text: in plain letters where they lack its own, and bytes that are no text as they are."""

    def plain(error: UnicodeError) -> tuple[bytes, int]:
        # imported where it is needed: `attnbench --help` needs no names
        from attnbench.report.text.names import ascii_only

        assert isinstance(error, UnicodeEncodeError)
        text = error.object[error.start : error.end]
        letters = (letter if "\udc80" <= letter <= "\udcff" else ascii_only(letter) for letter in text)
        return "".join(letters).encode("ascii", "surrogateescape"), error.end

    codecs.register_error("attnbench.plain", plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="attnbench.plain")


def check_outs(outs: Sequence[Path], forms: Sequence[str]) -> None:
    """Refuse, before anything is measured, a file of no known form; raises ArgumentError."""
    for out in outs:
        if out.suffix.removeprefix(".") not in forms:
            raise ArgumentError("out", out, f"the name must end in one of {', '.join(f'.{form}' for form in forms)}")


def print_answer(text: str, outs: Sequence[Path], content: Callable[[str], bytes]) -> None:
    """Print what a question came to, and write it to files, the form of each by its name. Raises ArgumentError."""
    print(text)
    for out in outs:
        write_out(out, content(out.suffix.removeprefix(".")))


def write_out(out: Path, content: bytes, option: str = "out") -> None:
    """Write the file that an option names, and the folders above it, and say which. Raises ArgumentError."""
    try:
        write_named(out, content)
    except FileExistsError:
        raise ArgumentError(option, out, f"{out.parent} is no folder") from None
    except OSError as error:
        raise ArgumentError(option, out, str(error.strerror)) from None
    print(out)


def write_below(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files by name into a folder, which is made where there is none, and say which. Raises UsageError."""
    for name, content in files.items():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = write_within(folder, name, content)
        except OSError as error:
            raise UsageError(f"{error.filename} cannot be written: {error.strerror}") from None
        print(file)


def add_to_job_summary(text: str) -> None:
    """Write to the page of a job on GitHub, where this is one. Raises UsageError."""
    if page := os.environ.get("GITHUB_STEP_SUMMARY"):
        try:
            with Path(page).open("a", encoding="utf-8") as summary:
                summary.write(text)
        except OSError as error:
            raise UsageError(f"GITHUB_STEP_SUMMARY {page}: {error.strerror}") from None
