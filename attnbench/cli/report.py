"""`attnbench report`: tables and plots from the records of a run folder."""

import sys
from pathlib import Path

from attnbench.store.run_folder import RunFolder


def remake(run: Path) -> None:
    """Write tables and plots again and say which; raises StoreError."""
    for file in make_report(RunFolder(run)):
        print(file)


def make_report(folder: RunFolder) -> list[Path]:
    """Write everything, print the summary."""
    # pandas and matplotlib take seconds to import; a run that is only starting need not wait for them
    from attnbench.report import console, write

    info, records = folder.info(), folder.records()
    files = write.write(folder.path, info, records)
    encoding = (sys.stdout.encoding or "ascii").lower()
    print(console.summary(info, records, unicode="utf" in encoding))
    return files
