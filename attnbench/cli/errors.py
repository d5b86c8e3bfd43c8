"""Errors that a user can do something about, as one clear message and an exit code; never a traceback."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

USAGE, FAILED = 2, 1
BUSY = 75
"""EX_TEMPFAIL of sysexits.h: nothing is wrong; try again later."""


class UsageError(Exception):
    """Bad input; the message says where and what would be right."""


@contextmanager
def explained() -> Iterator[None]:
    """Print known errors on stderr and exit with 2 (bad input), 1 (the machine or the disk) or 75 (somebody else measures)."""
    try:
        yield
    except Exception as error:
        code = _exit_code(error)
        if code is None:
            raise
        print(f"error: {error}", file=sys.stderr)
        sys.exit(code)


def _exit_code(error: Exception) -> int | None:
    """By class name, so that the modules that define them need not be imported to print `--help`."""
    name = type(error).__name__
    if name in {"UsageError", "SuiteError", "TooManyCellsError", "LockedError", "UnknownMethodError", "CheckoutError"}:
        return USAGE
    if name == "LaneTakenError":
        return BUSY
    return FAILED if name in {"StoreError", "ScoutError", "ServerError", "LaneError", "PermissionError"} else None
