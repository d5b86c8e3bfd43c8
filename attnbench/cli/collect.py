"""Storing what an executor measures, so that nothing is lost when it is interrupted; and whom it waits for."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attnbench.cli.signals import Interrupted, interruptible
from attnbench.executors.lane import Lane
from attnbench.executors.local import LocalExecutor
from attnbench.report.text.names import one_line
from attnbench.schema.record import Record
from attnbench.store.run_folder import RunFolder


def collect(executor: LocalExecutor, folder: RunFolder, took: Callable[[Record], object]) -> None:
    """Every record as it comes; of the job that an interruption ends, that it was interrupted."""
    try:
        for record in executor.run():
            folder.append(record)
            took(record)
    except Interrupted:
        if (unfinished := executor.interrupted()) is not None:
            folder.append(unfinished)
        raise


def lane_of_command(*, wait: bool) -> Lane:
    """For all that a command measures; for whom it waits is said on stderr."""
    return Lane(wait, lambda text: print(one_line(text), file=sys.stderr, flush=True))


@contextmanager
def exits_when_interrupted() -> Iterator[None]:
    """Leave with 130 or 143 on the first SIGINT or SIGTERM, once what is inside has saved what there is."""
    with interruptible():
        try:
            yield
        except Interrupted as interruption:
            print(f"\ninterrupted ({interruption})", file=sys.stderr)
            sys.exit(interruption.exit_code)
