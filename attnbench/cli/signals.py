"""Interruptions: the first saves and exits, the second exits at once."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupted(BaseException):
    """SIGINT or SIGTERM came; `exit_code` is the shell's convention, 128 + signal."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise Interrupted in the main thread on the first SIGINT or SIGTERM; on the second, leave without a word."""

    def first(number: int, _frame: FrameType | None) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, second)
        raise Interrupted(number)

    def second(number: int, _frame: FrameType | None) -> None:
        # the server sees its socket close and kills what it started; the last record is whole or cut, never lost
        os._exit(128 + number)

    before = {each: signal.signal(each, first) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
