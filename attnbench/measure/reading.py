"""Reading: a number of bytes, where it came from, or why it could not be read."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Reading:
    """One memory counter; `bytes` is None, never 0, where it could not be read, and `reason` says why."""

    bytes: int | None
    source: str
    reason: str | None = None
    flag: str | None = None
