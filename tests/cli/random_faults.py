"""A program that disturbs small runs at random moments, and ends with an AssertionError where something is not as it must be.

    python -m tests.cli.random_faults FOLDER SEED (--kills 200 | --minutes 60)

Kills: the runner, its server or that server's child is killed, and the run goes on with `--resume`. What it left must be whole.
Minutes: the disk is full, too, or other processes take the cores. No replicate may be lost, torn or twice, and no cell called
slower or faster than in a run that is only interrupted, in turns with it.
"""

import json
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
from attnbench.analyze.verdict import Verdict, judge, ratio
from attnbench.schema.cell import Cell
from attnbench.schema.errand import Pass, main_pass
from attnbench.schema.outcome import Failed, Status
from attnbench.schema.record import Record
from attnbench.store.run_folder import RunFolder

PLUGINS = Path(__file__).parents[1] / "plugins"
RUNNER, SERVER, CHILD, FULL, LOAD = "runner", "server", "child", "full disk", "load"
MARK = "ATTNBENCH_RANDOM_FAULTS"
"""In the environment of all processes of this program: by it those that are left behind are found."""
PATIENCE = 30.0
"""Seconds in which processes that have lost their parent must be gone, on a busy machine."""


def say(text: str) -> None:
    """A line at once, for whoever watches."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def run_folder(results: Path) -> Path | None:
    """The one run that there is; a folder without run.json is none yet."""
    found = [file.parent for file in results.glob("*/*/run.json")]
    assert len(found) <= 1, found
    return found[0] if found else None


def family(pid: int) -> dict[str, psutil.Process]:
    """The runner, its server and that server's child, as far as they are there."""
    runner = psutil.Process(pid)
    found = {RUNNER: runner}
    for server in runner.children():
        if "attnbench.worker.server" in server.cmdline():
            found[SERVER] = server
            for child in server.children():
                found[CHILD] = child
    return found


@dataclass
class Faults:
    """Runs in a folder, and what befell them."""

    folder: Path
    chance: random.Random
    suite: str
    befell: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        for name in ("tmp", "runtime"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "s.yaml").write_text(self.suite)

    def begin(self, results: Path) -> subprocess.Popen[bytes]:
        """Start a run, or go on with the one that there is."""
        found = run_folder(results)
        words = ["run", "s.yaml", "--results", str(results)] if found is None else ["run", "--resume", str(found)]
        env = {
            **os.environ,
            MARK: str(self.folder),
            "TMPDIR": str(self.folder / "tmp"),
            "XDG_RUNTIME_DIR": str(self.folder / "runtime"),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            # torch keeps it, and would among temporary files
            "TORCHINDUCTOR_CACHE_DIR": str(self.folder / "cache"),
            "PYTHONPATH": os.pathsep.join([str(PLUGINS), os.environ.get("PYTHONPATH", "")]),
            "OMP_NUM_THREADS": "1",
        }
        with (self.folder / "said").open("wb") as said:
            command = [sys.executable, "-m", "attnbench", *words]
            return subprocess.Popen(command, cwd=self.folder, env=env, stdin=subprocess.DEVNULL, stdout=said, stderr=said)

    def said(self) -> str:
        """The last words of the command."""
        return (self.folder / "said").read_text(errors="replace")[-3000:]


@dataclass
class Storm(Faults):
    """Runs one after the other, of which the processes are killed."""

    suite: str = """
name: killed
axes: {N: [65, 96], H: 2, D: 16, causal: true}
methods: ["plain:Plain", "faulty:Raises", "slow_to_tell:SlowToTell"]
budget: {seconds: 0.2, timeout: 60}
replicates: 2
report: {tables: [summary], plots: []}
"""
    crashed: int = 0
    """Records that say that a kill ended their job."""
    seconds: float = 10.0
    """How long the last run took that nobody disturbed: about as long as a process has to be killed in."""

    def one_run(self, results: Path, kills: int) -> None:
        """A run from its beginning to its end, killed and continued as often as that."""
        wanted = self.befell.total() + kills
        while self.befell.total() < wanted:
            process, before = self.begin(results), self.befell.total()
            while self.befell.total() < wanted and process.poll() is None:
                self.kill_one(process)
            code = process.wait(timeout=300)
            self.nothing_lives()
            if self.befell.total() == before:
                # it was faster than the blow: it is finished, and the rest of its kills falls on the next
                return self.whole(results, code)
            assert code in {-9, 0, 1}, self.said()
        start = time.monotonic()
        code = self.begin(results).wait(timeout=300)
        self.seconds = 0.5 * self.seconds + 0.5 * (time.monotonic() - start)
        self.nothing_lives()
        return self.whole(results, code)

    def kill_one(self, process: subprocess.Popen[bytes]) -> None:
        """Kill one of the three at a random moment; nobody where the run ends before."""
        victim = self.chance.choice((RUNNER, SERVER, CHILD))
        (aim,) = self.chance.choices(("start", "inquiry", "job"), weights=(2, 3, 5))
        kinds = {"inquiry": {"inquiry"}, "job": {each.value for each in Pass}}.get(aim, set())
        # a run that has asked asks no more
        end = time.monotonic() + self.seconds
        while kinds and process.poll() is None and not kinds & self.errands() and time.monotonic() < end:
            time.sleep(0.002)
        time.sleep(self.chance.uniform(0, 0.5 if aim == "inquiry" else 0.5 * self.seconds))
        while process.poll() is None:
            with suppress(psutil.Error):
                if (found := family(process.pid).get(victim)) is not None:
                    found.kill()
                    self.befell[victim] += 1
                    if victim == RUNNER:
                        process.wait()
                    return
            time.sleep(0.002)

    def errands(self) -> set[str]:
        """What has been asked for and was not answered yet: the kind of errand, of a job its pass."""
        found = set()
        for file in (self.folder / "tmp").glob("*/errand.json"):
            with suppress(OSError, ValueError):
                errand = json.loads(file.read_bytes())
                found.add(errand.get("phase") or errand["kind"])
        return found

    def nothing_lives(self) -> None:
        """Of a run that has ended every process is gone, within moments."""

        def is_ours(process: psutil.Process) -> bool:
            return process.pid != os.getpid() and (process.info["environ"] or {}).get(MARK) == str(self.folder)

        end = time.monotonic() + PATIENCE
        while left := [p.info["cmdline"] for p in psutil.process_iter(["environ", "cmdline"]) if is_ours(p)]:
            assert time.monotonic() < end, f"left running: {left}"
            time.sleep(0.05)

    def whole(self, results: Path, code: int) -> None:
        """What a run that ended must have left, and nothing else."""
        found = run_folder(results)
        assert found is not None, self.said()
        folder, lines = RunFolder(found), (found / "records.jsonl").read_bytes().splitlines()
        records = folder.records()
        assert len(records) == len(lines), "a record is torn"
        assert not (found / "records.aside").exists(), (found / "records.aside").read_text()
        assert (found / "run.lock").read_bytes() == b"", "the lock was not given back"
        assert list(found.rglob("*.partial")) == []
        assert (found / "table.md").exists()
        assert list((self.folder / "tmp").iterdir()) == [], "temporary folders are left behind"
        # what fails is not tried again
        measured = {(Pass.TIME, 0): "ok", (Pass.TIME, 1): "ok", (Pass.MEMORY, 0): "ok"}
        expected = {"plain:Plain": measured, "faulty:Raises": {(Pass.TIME, 0): "error"}, "slow_to_tell:SlowToTell": measured}
        cells = folder.info().cells
        assert set(expected) == {cell.method for cell in cells}
        for cell in cells:
            outcomes = finals(records, cell)
            assert outcomes == expected[cell.method] or "crashed" in outcomes.values(), (cell.label, cell.problem.N, outcomes)
        self.crashed += sum(isinstance(r.outcome, Failed) and r.outcome.status is Status.CRASHED for r in records)
        assert code == (0 if any(r.ok and r.job.phase is main_pass(r.job.cell) for r in records) else 1), self.said()


def finals(records: list[Record], cell: Cell) -> dict[tuple[Pass, int], str]:
    """By pass and replicate, how a cell ended; raises where it did so twice.

    A job that a kill ended is tried again, twice at most, and only the last attempt counts.
    """
    found: dict[tuple[Pass, int], str] = {}
    attempts: Counter[tuple[Pass, int]] = Counter()
    for record in records:
        job, outcome = record.job, record.outcome
        if job.cell.key == cell.key and job.phase is not Pass.CHECK:
            place = (job.phase, job.replicate)
            assert found.get(place, "crashed") == "crashed", f"{cell.label}, N={cell.problem.N}: {place} twice"
            assert job.attempt == attempts[place], f"{cell.label}, N={cell.problem.N}: {place}, attempt {job.attempt}"
            found[place] = outcome.status.value if isinstance(outcome, Failed) else "ok"
            attempts[place] += 1
    return found


def kill(folder: Path, seed: int, kills: int) -> None:
    """Kill, and say what was killed."""
    storm, runs = Storm(folder, random.Random(seed)), 0
    while (left := kills - storm.befell.total()) > 0:
        storm.one_run(folder / f"run-{runs}", min(left, storm.chance.randint(2, 9)))
        runs += 1
        say(f"run {runs}: {storm.befell.total()} of {kills} kills; {storm.crashed} jobs were ended by one")
    say(f"{storm.befell.total()} kills, {runs} runs: every cell final once, nothing torn, no process and no folder left")


TURNS, LONGEST = 6, 300.0
"""The least number of turns, and the seconds of a disturbed one at most; an undisturbed one takes a fifth of that."""
INTERRUPTED = 130
"""The exit code of a run that its user interrupts."""
MARGIN = 0.10
"""That the loaded moments may add up to: a replicate under load is slower, and stays in."""
LEVEL = 0.001
"""Of false alarms, which would end a test that is run again and again: the 5 % of a single judgement are too many for it."""


@dataclass
class Trouble(Faults):
    """One run in turns, and all kinds of faults."""

    suite: str = """
name: disturbed
axes: {N: [256, 512], H: 4, D: 32, causal: true}
methods: [softmax.sdpa, softmax.naive, linear.chunked]
budget: {seconds: 0.3, timeout: 60}
replicates: 100000
report: {tables: [summary], plots: [time]}
"""

    def run(self, name: str, seconds: float, *, disturbed: bool) -> None:
        """Go on with a run for about so many seconds, and interrupt it; however often it ends before, by what befalls it."""
        results, end = self.folder / name, time.monotonic() + seconds
        while time.monotonic() < end:
            process = self.begin(results)
            while process.poll() is None and time.monotonic() < end:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(self.chance.uniform(2, 10))
                if disturbed and process.poll() is None:
                    self.disturb(process, results)
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            process.wait()
            assert "Traceback" not in self.said(), self.said()
            assert disturbed or process.returncode == INTERRUPTED, self.said()

    def disturb(self, process: subprocess.Popen[bytes], results: Path) -> None:
        """One fault."""
        fault = self.chance.choice((RUNNER, SERVER, CHILD, FULL, LOAD))
        if fault == LOAD:
            # all cores are taken for a second
            spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
            time.sleep(1)
            for each in spinning:
                each.kill()
                each.wait()
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


def by_turn(path: Path, turns: list[float]) -> dict[str, dict[int, float]]:
    """The geometric mean of the times of each turn, by the key of their cell; `turns` are the moments at which they began.

    Replicates of one turn meet the same load, and so count as one.
    """
    folder = RunFolder(path)
    records = folder.records()
    timed = [record for record in records if record.ok and record.job.phase is Pass.TIME]
    began = {(r.job.cell.key, r.job.replicate): datetime.fromisoformat(r.started).timestamp() for r in timed}
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


def disturb(folder: Path, seed: int, minutes: float) -> None:
    """Measure twice, and hold one against the other."""
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
    subprocess.run([sys.executable, "-m", "attnbench", "report", str(stormy)], check=True)
    cells = {cell.key: cell for cell in RunFolder(stormy).info().cells}
    ratios = [ratio(sides[0][key], sides[1][key], paired=True) for key in cells]
    verdicts = judge(ratios, MARGIN, LEVEL)
    for cell, found, verdict in zip(cells.values(), ratios, verdicts, strict=True):
        say(f"{cell.label}, N={cell.problem.N}: ratio {found.value:.3f}, {found.replicates} turns: {verdict}")
    assert set(verdicts) <= {Verdict.SAME, Verdict.UNCLEAR}
    say("every cell has its replicates, and none is told from the undisturbed run")


if __name__ == "__main__":
    where, number, what, amount = sys.argv[1:]
    if what == "--kills":
        kill(Path(where).resolve(), int(number), int(amount))
    else:
        disturb(Path(where).resolve(), int(number), float(amount))
