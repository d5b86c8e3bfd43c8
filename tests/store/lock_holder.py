"""A program that takes the lock of the folder it is given, says so, and keeps it until it is killed."""

import signal
import sys
from pathlib import Path

from attnbench.store.lock import FolderLock

with FolderLock(Path(sys.argv[1]) / "run.lock"):
    sys.stdout.write("held\n")
    sys.stdout.flush()
    signal.pause()
