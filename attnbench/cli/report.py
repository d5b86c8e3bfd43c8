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
    from attnbench.report.findings import Findings

    findings = Findings.of(folder.info(), folder.read())
    files = write.write(folder.path, findings)
    encoding = (sys.stdout.encoding or "ascii").lower()
    print(console.summary(findings, unicode="utf" in encoding))
    return files
