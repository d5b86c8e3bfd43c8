"""A program that disturbs: one suite is measured undisturbed, and in turns with it once more under kills, full disks and load.

    python -m tests.cli.hour_of_faults FOLDER MINUTES SEED

The disturbed run is killed (the runner, its server, or the server's child), its disk is full for it, or other processes take
the cores for a moment; whenever it ends before it is whole, it goes on with `--resume`. The two are measured in turns, of a
minute and of five where there is an hour, the undisturbed one being interrupted as by a user, so that whatever else the machine
does in that time befalls both. After MINUTES of the disturbed run no replicate may be lost, torn or twice; a report of it is
made; and no cell may be called slower or faster than in the undisturbed run, turns paired, where there are enough of them.
"""

import math
import os
import random
import resource
import signal
import statistics
import subprocess
import sys
import time
from bisect import bisect
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import psutil

from attnbench.analyze.cells import summarize
from attnbench.analyze.verdict import LEVEL, Verdict, judge, ratio
from attnbench.schema.errand import Pass
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
TURNS, LONGEST = 6, 300.0
"""The least number of turns, and the seconds of a disturbed one at most; an undisturbed one takes a fifth of that."""
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


def by_turn(path: Path, turns: list[float]) -> dict[str, dict[int, float]]:
    """The geometric mean of the times of each turn, by the key of their cell; `turns` are the moments at which they began.

    Replicates of one turn meet the same load, and so count as one.
    """
    folder = RunFolder(path)
    records = folder.records()
    began = {
        (record.job.cell.key, record.job.replicate): datetime.fromisoformat(record.started).timestamp()
        for record in records
        if record.ok and record.job.phase is Pass.TIME
    }
    found: dict[str, dict[int, float]] = {}
    cells = summarize(folder.info().cells, records)
    assert max(len(cell.medians) for cell in cells) - min(len(cell.medians) for cell in cells) <= 1
    for cell in cells:
        assert cell.ok, (cell.cell.label, cell.reason)
        assert list(cell.medians) == list(range(len(cell.medians))), cell.cell.label
        logs: dict[int, list[float]] = {}
        for replicate, time_ in cell.times.items():
            logs.setdefault(bisect(turns, began[cell.cell.key, replicate]) - 1, []).append(math.log(time_))
        found[cell.cell.key] = {turn: math.exp(statistics.fmean(each)) for turn, each in logs.items()}
    return found


def main() -> None:
    """Measure twice, and hold one against the other."""
    folder, minutes, seed = Path(sys.argv[1]).resolve(), float(sys.argv[2]), int(sys.argv[3])
    trouble, left, turns = Trouble(folder, random.Random(seed)), 60 * minutes, list[float]()
    stormy_turn = min(LONGEST, left / TURNS)
    while left > 0:
        turns.append(time.time())
        # but at least the time to begin
        trouble.run("calm", max(20.0, stormy_turn / 5), disturbed=False)
        begin = time.monotonic()
        trouble.run("stormy", stormy_turn, disturbed=True)
        left -= time.monotonic() - begin
    say(f"{minutes:g} minutes; " + ", ".join(f"{n} x {what}" for what, n in trouble.befell.items()))
    calm, stormy = (path for name in ("calm", "stormy") if (path := run_folder(folder / name)) is not None)
    sides = [by_turn(path, turns) for path in (calm, stormy)]
    say(", ".join(f"{len(RunFolder(path).records()):,} records {name}" for name, path in (("calm", calm), ("stormy", stormy))))
    subprocess.run([sys.executable, "-m", "attnbench", "report", str(stormy)], check=True)
    cells = {cell.key: cell for cell in RunFolder(stormy).info().cells}
    ratios = [ratio(sides[0][key], sides[1][key], paired=True) for key in cells]
    verdicts = judge(ratios, MARGIN, LEVEL)
    for cell, found, verdict in zip(cells.values(), ratios, verdicts, strict=True):
        interval = f"{found.interval.low:.3f} to {found.interval.high:.3f}" if found.interval else "without an interval"
        say(f"{cell.label}, N={cell.problem.N}: ratio {found.value:.3f}, {interval}, {found.replicates} turns: {verdict}")
    assert set(verdicts) <= {Verdict.SAME, Verdict.UNCLEAR}
    say("every cell has its replicates, and none is told from the undisturbed run")


if __name__ == "__main__":
    main()
