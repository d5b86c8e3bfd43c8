"""A program that disturbs: one suite is measured undisturbed, and once more under kills, full disks and load.

    python -m tests.cli.hour_of_faults FOLDER MINUTES SEED

The disturbed run is killed (the runner, its server, or the server's child), its disk is full for it, or other processes take
the cores for a moment; whenever it ends before it is whole, it goes on with `--resume`. Then all cells must have all their
replicates, and none may be called slower, faster or lost against the undisturbed run. MINUTES is how long the disturbed run
takes at least, about.
"""

import os
import random
import resource
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
from attnbench.report.questions.comparison.judging import judge_runs
from attnbench.schema.run import RunInfo
from attnbench.store.run_folder import RunFolder
from tests.cli.random_kills import CHILD, RUNNER, SERVER, family, run_folder, say

SUITE = """
name: disturbed
axes: {{N: [256, 512], H: 4, D: 32, causal: true}}
methods: [softmax.sdpa, softmax.naive, linear.chunked]
budget: {{seconds: 0.3, timeout: 60}}
replicates: {replicates}
report: {{tables: [summary], plots: [time]}}
"""
CELLS, SECONDS = 6, 0.4
"""Of the suite; and of one replicate of a cell, about."""
MARGIN = 0.10
"""That the loaded moments may add up to: a replicate under load is slower, and stays in."""
FULL, LOAD = "full disk", "load"


@dataclass
class Trouble:
    """One run, and what befell it."""

    folder: Path
    chance: random.Random
    befell: Counter[str] = field(default_factory=Counter)

    def run(self, name: str, replicates: int, *, disturbed: bool) -> Path:
        """The folder of a run from its beginning to its end."""
        results = self.folder / name
        (self.folder / "s.yaml").write_text(SUITE.format(replicates=replicates))
        while True:
            process = self._begin(results)
            while process.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(self.chance.uniform(2, 10))
                if disturbed and process.poll() is None:
                    self._disturb(process, results)
            words = (self.folder / "said").read_text(errors="replace")
            assert "Traceback" not in words, words
            if process.returncode == 0:
                found = run_folder(results)
                assert found is not None, words
                return found
            assert disturbed, words

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
    replicates = max(5, round(60 * minutes / (CELLS * SECONDS)))
    trouble = Trouble(folder, random.Random(seed))
    calm = read(trouble.run("calm", max(5, replicates // 5), disturbed=False))
    begin = time.monotonic()
    stormy = read(trouble.run("stormy", replicates, disturbed=True))
    say(f"{(time.monotonic() - begin) / 60:.1f} minutes; " + ", ".join(f"{n} x {what}" for what, n in trouble.befell.items()))
    for cell in stormy[1]:
        assert cell.ok, (cell.cell.label, cell.reason)
        assert len(cell.medians) == replicates, (cell.cell.label, len(cell.medians))
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
