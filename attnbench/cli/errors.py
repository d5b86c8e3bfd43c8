"""Errors that a user can do something about, as one clear message and an exit code; never a traceback."""

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress

USAGE, FAILED = 2, 1
BUSY = 75
"""EX_TEMPFAIL of sysexits.h: nothing is wrong; try again later."""


class UsageError(Exception):
    """Bad input; the message says where and what would be right."""


@contextmanager
def explained(failed: int = FAILED) -> Iterator[None]:
    """Print known errors on stderr and exit with 2 (bad input), 75 (somebody else measures) or `failed`.

    The last is for the machine, the disk, or a fault of this program.

    What was printed on stdout has been taken by then, or that is such an error too. A command whose exit code 1 is a verdict
    names another code for what failed.
    """
    try:
        try:
            yield
        finally:
            _print_the_rest()
    except Exception as error:  # noqa: BLE001 - whatever it is, the exit code must say that something failed
        code = _exit_code(error)
        # a stderr that takes nothing changes no exit code
        with suppress(OSError):
            if code is None:
                traceback.print_exc()
            # who reads the output may leave when that is enough
            elif not isinstance(error, BrokenPipeError):
                print(f"error: {_words(error)}", file=sys.stderr)
        sys.exit(failed if code in {None, FAILED} else code)


def _exit_code(error: Exception) -> int | None:
    """By class name, so that the modules that define them need not be imported to print `--help`."""
    name = type(error).__name__
    if name in {"UsageError", "SuiteError", "TooManyCellsError", "LockedError", "UnknownMethodError", "CheckoutError"}:
        return USAGE
    if name == "LaneTakenError":
        return BUSY
    return FAILED if name in {"StoreError", "ScoutError", "ServerError", "LaneError"} or isinstance(error, OSError) else None


def _words(error: Exception) -> str:
    """What went wrong, and with which file; without what a terminal would take for a command."""
    text = str(error)
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
