"""A program that tests kill: opens a run folder as a run does, and appends numbered records as long as it may.

Arguments: the results folder, and how many records to append. Standard input: a run.json and a record line.
Standard output: the number of each record, once the store has reported it as written.
"""

import os
import sys
from pathlib import Path

from attnbench.schema.record import parse
from attnbench.schema.run import RunInfo
from attnbench.store.lock import FolderLock
from attnbench.store.run_folder import RunFolder, StoreError


def main() -> None:
    """Create or continue the run, and append."""
    results, count = Path(sys.argv[1]), int(sys.argv[2])
    info, record = RunInfo.model_validate_json(sys.stdin.readline()), parse(sys.stdin.readline())
    folder = RunFolder(results / info.suite.name / info.id)
    if not folder.path.exists():
        folder = RunFolder.create(results, info)
    with FolderLock(folder.lock):
        first = len(folder.repair())
        for number in range(first, first + count):
            folder.append(record.model_copy(update={"note": str(number)}))
            os.write(1, f"{number}\n".encode())
        folder.rewrite(info)


if __name__ == "__main__":
    try:
        main()
    except StoreError as error:
        sys.exit(f"StoreError: {error}")
