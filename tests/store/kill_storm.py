"""A program that kills: forks a writer of a run folder, kills it at a random moment, and again, for some rounds.

Arguments: the run folder, the rounds, a seed. Standard input: a record line. Standard output: the numbers that the
store reported as written, in order. Forked, because a fresh interpreter a round would take most of the time.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

from attnbench.schema.record import Record, parse
from attnbench.store.lock import FolderLock
from attnbench.store.run_folder import RunFolder


def write_on(path: Path, record: Record, told: int) -> None:
    """Repair, then append until the end comes."""
    folder = RunFolder(path)
    with FolderLock(path / "run.lock"):
        number = len(folder.repair())
        while True:
            folder.append(record.model_copy(update={"note": str(number)}))
            os.write(told, f"{number}\n".encode())
            number += 1


def one_round(path: Path, record: Record, patience: float) -> bytes:
    """What one writer reported before it was killed."""
    heard, told = os.pipe()
    child = os.fork()
    if child == 0:
        write_on(path, record, told)
    os.close(told)
    time.sleep(patience)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(heard, "rb") as pipe:
        return pipe.read()


def main() -> None:
    """Tell all numbers of all rounds."""
    path, rounds, chance = Path(sys.argv[1]), int(sys.argv[2]), random.Random(int(sys.argv[3]))
    record = parse(sys.stdin.readline())
    for _ in range(rounds):
        sys.stdout.buffer.write(one_round(path, record, chance.uniform(0.001, 0.05)))


if __name__ == "__main__":
    main()
