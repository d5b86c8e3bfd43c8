"""A program that disturbs: one suite is measured undisturbed, and in turns with it once more under kills, full disks and load.

    python -m tests.cli.hour_of_faults FOLDER MINUTES SEED

The disturbed run is killed (the runner, its server, or the server's child), its disk is full for it, or other processes take
the cores for a moment; whenever it ends before it is whole, it goes on with `--resume`. The two are measured in turns of a
minute and of five, the undisturbed one being interrupted as by a user, so that whatever else the machine does in that time
befalls both. After MINUTES of the disturbed run all cells must have the same replicates, none torn or twice, and none may be
called slower, faster or lost against the undisturbed run; and a report of the disturbed run is made.
"""

import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from attnbench.analyze.cells import CellSummary, summarize
from attnbench.analyze.statistics import spread
from attnbench.analyze.verdict import LEVEL, Verdict
from attnbench.report.questions.comparison.judgement import judge_runs
from attnbench.schema.run import RunInfo
from attnbench.store.run_folder import RunFolder
from tests.cli.random_kills import CHILD, RUNNER, SERVER, family, run_folder, say

SUITE = """
name: disturbed
axes: {N: [256, 512], H: 4, D: 32, causal: true}
methods: [softmax.sdpa, softmax.naive, linear.chunked]
budget: {seconds: 0.3, timeout: 60}
replicates: 100000
report: {tables: [summary], plots: [time]}
"""
CALM, STORMY = 60.0, 300.0
"""Seconds of a turn."""
INTERRUPTED = 130
"""The exit code of a run that its user interrupts."""
MARGIN = 0.10
"""That the loaded moments may add up to: a replicate under load is slower, and stays in."""
FULL, LOAD = "full disk", "load"


@dataclass
class Trouble:
    """One run, and what befell it."""

    folder: Path
    chance: random.Random
    befell: Counter[str] = field(default_factory=Counter)

    def run(self, name: str, seconds: float, *, disturbed: bool) -> None:
        """Go on with a run for about so many seconds, and interrupt it; however often it ends before, by what befalls it."""
        results, end = self.folder / name, time.monotonic() + seconds
        (self.folder / "s.yaml").write_text(SUITE)
        while time.monotonic() < end:
            process = self._begin(results)
            while process.poll() is None and time.monotonic() < end:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(self.chance.uniform(2, 10))
                if disturbed and process.poll() is None:
                    self._disturb(process, results)
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            process.wait()
            words = (self.folder / "said").read_text(errors="replace")
            assert "Traceback" not in words, words
            assert disturbed or process.returncode == INTERRUPTED, words

    def _begin(self, results: Path) -> subprocess.Popen[bytes]:
        found = run_folder(results)
        words = ["run", "s.yaml", "--results", str(results)] if found is None else ["run", "--resume", str(found)]
        env = {**os.environ, "XDG_CACHE_HOME": str(self.folder / "cache")}
        with (self.folder / "said").open("wb") as said:
            command = [sys.executable, "-m", "attnbench", *words]
            return subprocess.Popen(command, cwd=self.folder, env=env, stdin=subprocess.DEVNULL, stdout=said, stderr=said)

    def _disturb(self, process: subprocess.Popen[bytes], results: Path) -> None:
        """One fault."""
        fault = self.chance.choice((RUNNER, SERVER, CHILD, FULL, LOAD))
        if fault == LOAD:
            self._load()
        elif fault == FULL:
            found = run_folder(results)
            if found is None or not (found / "records.jsonl").exists():
                return
            # what a writer meets on a disk with so little room left: part of a line, and then an error
            size = (found / "records.jsonl").stat().st_size + self.chance.randint(0, 3000)
            with suppress(ProcessLookupError):
                _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, hard))
        else:
            with suppress(psutil.Error):
                if (victim := family(process.pid).get(fault)) is None:
                    return
                victim.kill()
        self.befell[fault] += 1

    def _load(self) -> None:
        """All cores are taken for a second."""
        spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
        time.sleep(1)
        for process in spinning:
            process.kill()
            process.wait()


def read(path: Path) -> tuple[RunInfo, list[CellSummary]]:
    """A run and its cells."""
    folder = RunFolder(path)
    info = folder.info()
    return info, summarize(info.cells, folder.records())


def main() -> None:
    """Measure twice, and hold one against the other."""
    folder, minutes, seed = Path(sys.argv[1]).resolve(), float(sys.argv[2]), int(sys.argv[3])
    trouble, left = Trouble(folder, random.Random(seed)), 60 * minutes
    while left > 0:
        trouble.run("calm", CALM, disturbed=False)
        begin = time.monotonic()
        trouble.run("stormy", STORMY, disturbed=True)
        left -= time.monotonic() - begin
    say(f"{minutes:g} minutes; " + ", ".join(f"{n} x {what}" for what, n in trouble.befell.items()))
    calm, stormy = (read(found) for name in ("calm", "stormy") if (found := run_folder(folder / name)) is not None)
    numbers = [list(cell.medians) for cell in stormy[1]]
    for cell in stormy[1]:
        assert cell.ok, (cell.cell.label, cell.reason)
        assert list(cell.medians) == list(range(len(cell.medians))), cell.cell.label
    assert max(map(len, numbers)) - min(map(len, numbers)) <= 1
    reported = subprocess.run([sys.executable, "-m", "attnbench", "report", str(run_folder(folder / "stormy"))], check=True)
    assert reported.returncode == 0
    judgement = judge_runs(calm, stormy, MARGIN, LEVEL)
    for comparison in judgement.comparisons:
        pair, ratio = comparison.pair, comparison.ratio
        assert pair.old is not None
        assert pair.new is not None
        assert ratio is not None
        assert ratio.interval is not None
        sides = [spread(list(side.medians.values())) for side in (pair.old, pair.new)]
        ends = "; ".join(f"{1e3 * side.low:.3f} to {1e3 * side.high:.3f} ms" for side in sides)
        what = f"{pair.any.cell.label}, N={pair.any.cell.problem.N}"
        interval = f"{ratio.interval.low:.3f} to {ratio.interval.high:.3f}"
        say(f"{what}: {ends}; ratio {ratio.value:.3f}, {interval}: {comparison.verdict}")
        assert comparison.verdict in {Verdict.SAME, Verdict.UNCLEAR}, what
    say("every cell has its replicates, and none is told from the undisturbed run")


if __name__ == "__main__":
    main()
