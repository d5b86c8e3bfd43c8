"""A program that tests kill: opens a run folder as a run does, and appends numbered records as long as it may.

Arguments: the results folder, and how many records to append. Standard input: a run.json and a record line.
Standard output: the number of each record, once the store has reported it as written.

With `storm`, a number of rounds and a seed, it kills itself: a round is a writer, forked to save time, killed at random.
"""

import os
import random
import signal
import sys
import time
from itertools import count, islice
from pathlib import Path

from attnbench.schema.record import Record, parse
from attnbench.schema.run import RunInfo
from attnbench.store.lock import locked
from attnbench.store.run_folder import RunFolder, StoreError


def append(folder: RunFolder, record: Record, most: int | None) -> None:
    """Repair, and append so many records, or until the end comes."""
    with locked(folder.lock):
        for number in islice(count(len(folder.repair())), most):
            folder.append(record.model_copy(update={"note": str(number)}))
            os.write(1, f"{number}\n".encode())


def storm(folder: RunFolder, record: Record, rounds: int, seed: int) -> None:
    """Let one writer after another be killed."""
    chance = random.Random(seed)
    for _ in range(rounds):
        child = os.fork()
        if child == 0:
            append(RunFolder(folder.path), record, None)
        time.sleep(chance.uniform(0.001, 0.05))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def main() -> None:
    """Create or continue the run, and append."""
    results, *words = sys.argv[1:]
    info, record = RunInfo.model_validate_json(sys.stdin.readline()), parse(sys.stdin.readline())
    folder = RunFolder.at(Path(results), info)
    if not folder.begun:
        folder = RunFolder.create(Path(results), info)
    if words[0] == "storm":
        storm(folder, record, int(words[1]), int(words[2]))
    else:
        append(folder, record, int(words[0]))
        folder.rewrite(info)


if __name__ == "__main__":
    try:
        main()
    except StoreError as error:
        sys.exit(f"StoreError: {error}")
