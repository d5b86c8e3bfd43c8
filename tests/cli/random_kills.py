"""A program that kills: it runs a small suite and kills the runner, its server or that server's child at random moments.

    python tests/cli/random_kills.py FOLDER KILLS SEED

A killed run goes on with `--resume` until it has had its share of the kills, and is then left to its end; then the next one
begins, until there were so many kills in all. Some are aimed: at the time in which methods are asked about their cells, and
at servers that are still importing torch. After each run that ended, what it left must be whole: every cell has its final
record, none twice; nothing is torn; no process, no lock and no temporary folder is left behind. The program says what it
killed, and ends with an AssertionError where something is not as it must be.
"""

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from attnbench.schema.cell import Cell
from attnbench.schema.errand import Pass, main_pass
from attnbench.schema.outcome import Failed, Status
from attnbench.schema.record import Record
from attnbench.store.run_folder import RunFolder

PLUGINS = Path(__file__).parents[1] / "plugins"
SUITE = """
name: killed
axes: {N: [65, 96], H: 2, D: 16, causal: true}
methods: ["plain:Plain", "faulty:Raises", "slow_to_tell:SlowToTell"]
budget: {seconds: 0.2, timeout: 60}
replicates: 2
report: {tables: [summary], plots: []}
"""
EXPECTED = {"plain:Plain": "ok", "faulty:Raises": "error", "slow_to_tell:SlowToTell": "ok"}
RUNNER, SERVER, CHILD = "runner", "server", "child"
MARK = "ATTNBENCH_RANDOM_KILLS"
"""In the environment of all processes of this program: by it those that are left behind are found."""
PATIENCE = 30.0
"""Seconds in which processes that have lost their parent must be gone, on a busy machine."""


@dataclass
class Storm:
    """Runs one after the other, and what was killed of them."""

    folder: Path
    chance: random.Random
    kills: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By victim, and by what was being done."""
    crashed: int = 0
    """Records that say that a kill ended their job."""
    seconds: float = 10.0
    """How long the last run took that nobody disturbed: about as long as a process has to be killed in."""

    @property
    def temporary(self) -> Path:
        """Where all processes have their temporary files."""
        return self.folder / "tmp"

    def begin(self, results: Path) -> subprocess.Popen[bytes]:
        """Start a run, or go on with the one that there is."""
        found = run_folder(results)
        words = ["run", "s.yaml", "--results", str(results)] if found is None else ["run", "--resume", str(found)]
        env = {
            **os.environ,
            MARK: str(self.folder),
            "TMPDIR": str(self.temporary),
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

    def one_run(self, results: Path, kills: int) -> None:
        """A run from its beginning to its end, killed and continued as often as that."""
        wanted = self.kills.total() + kills
        while self.kills.total() < wanted:
            process = self.begin(results)
            before = self.kills.total()
            while self.kills.total() < wanted and process.poll() is None:
                self.kill_one(process)
            code = process.wait(timeout=300)
            self.nothing_lives()
            if self.kills.total() == before:
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
        if aim == "start":
            time.sleep(self.chance.uniform(0, 0.5 * self.seconds))
        elif aim == "inquiry":
            self.wait_for_errand(process, {"inquiry"})
            time.sleep(self.chance.uniform(0, 0.5))
        else:
            self.wait_for_errand(process, set(Pass))
            time.sleep(self.chance.uniform(0, 0.5 * self.seconds))
        while process.poll() is None:
            with suppress(psutil.Error):
                found = family(process.pid).get(victim)
                if found is not None:
                    doing = self.doing(process.pid)
                    found.kill()
                    self.kills[victim, doing] += 1
                    if victim == RUNNER:
                        process.wait()
                    return
            time.sleep(0.002)

    def wait_for_errand(self, process: subprocess.Popen[bytes], kinds: set[str]) -> None:
        """Until such an errand is there, or for as long as a run takes: a run that has asked asks no more."""
        end = time.monotonic() + self.seconds
        while process.poll() is None and not kinds & set(self.errands()) and time.monotonic() < end:
            time.sleep(0.002)

    def errands(self) -> list[str]:
        """What has been asked for and was not answered yet: the kind of errand, of a job its pass."""
        found = []
        for file in self.temporary.glob("*/errand.json"):
            with suppress(OSError, ValueError):
                errand = json.loads(file.read_bytes())
                found.append(errand.get("phase") or errand["kind"])
        return found

    def doing(self, pid: int) -> str:
        """What the three are at, in a word or two."""
        errands = self.errands()
        if not errands:
            return "between errands"
        return errands[0] if CHILD in family(pid) else f"a server starts for a {errands[0]}"

    def nothing_lives(self) -> None:
        """Of a run that has ended every process is gone, within moments."""
        end = time.monotonic() + PATIENCE
        while left := [p.info["cmdline"] for p in psutil.process_iter(["environ", "cmdline"]) if self.is_ours(p)]:
            assert time.monotonic() < end, f"left running: {left}"
            time.sleep(0.05)

    def is_ours(self, process: psutil.Process) -> bool:
        """Whether a process was started by this program, but for itself."""
        return process.pid != os.getpid() and (process.info["environ"] or {}).get(MARK) == str(self.folder)

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
        assert list(self.temporary.iterdir()) == [], "temporary folders are left behind"
        info = folder.info()
        for cell in info.cells:
            outcomes = finals(records, cell)
            assert outcomes == expected(cell) or "crashed" in outcomes.values(), (cell.label, cell.problem.N, outcomes)
        assert set(EXPECTED) == {cell.method for cell in info.cells}
        self.crashed += sum(isinstance(r.outcome, Failed) and r.outcome.status is Status.CRASHED for r in records)
        measured = any(r.ok and r.job.phase is main_pass(r.job.cell) for r in records)
        assert code == (0 if measured else 1), self.said()

    def said(self) -> str:
        """The last words of the command."""
        return (self.folder / "said").read_text(errors="replace")[-3000:]


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
            assert place not in found or found[place] == "crashed", f"{cell.label}, N={cell.problem.N}: {place} twice"
            assert job.attempt == attempts[place], (
                f"{cell.label}, N={cell.problem.N}: {place} has another attempt {job.attempt}"
            )
            found[place] = outcome.status.value if isinstance(outcome, Failed) else "ok"
            attempts[place] += 1
    return found


def expected(cell: Cell) -> dict[tuple[Pass, int], str]:
    """How a cell ends that nobody disturbs: what fails is not tried again."""
    status = EXPECTED[cell.method]
    if status != "ok":
        return {(Pass.TIME, 0): status}
    return {(Pass.TIME, 0): status, (Pass.TIME, 1): status, (Pass.MEMORY, 0): status}


def say(text: str) -> None:
    """A line at once, for whoever watches."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """Kill, and say what was killed."""
    folder, kills, seed = Path(sys.argv[1]).resolve(), int(sys.argv[2]), int(sys.argv[3])
    storm = Storm(folder, random.Random(seed))
    for each in (storm.temporary, folder / "runtime"):
        each.mkdir(parents=True)
    (folder / "s.yaml").write_text(SUITE)
    runs = 0
    while (left := kills - storm.kills.total()) > 0:
        storm.one_run(folder / f"run-{runs}", min(left, storm.chance.randint(2, 9)))
        runs += 1
        say(f"run {runs}: {storm.kills.total()} of {kills} kills; {storm.crashed} jobs were ended by one")
    for (victim, doing), count in sorted(storm.kills.items()):
        say(f"{count:4} x {victim}: {doing}")
    say(f"{storm.kills.total()} kills, {runs} runs: every cell final once, nothing torn, no process and no folder left")


if __name__ == "__main__":
    main()
