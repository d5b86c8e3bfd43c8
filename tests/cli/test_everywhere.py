"""Wherever a suite is measured, its cells end alike, a fault costs its own cells, and what is killed loses nothing."""

import json
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from attnbench.analyze.cells import summarize
from attnbench.schema.errand import Pass
from attnbench.schema.outcome import Failed, Status
from attnbench.schema.record import Record
from attnbench.store.run_folder import RunFolder
from tests.cli.clusters import ray_nodes, slurm
from tests.cli.conftest import PLUGINS, Find, Run, Start, Write, end, fine, wait_for_records
from tests.cli.test_run import FAULTS, no_orphans

METHODS = ["plain:Plain", "faulty:Segfaults", "faulty:AllocatesWithoutEnd", "faulty:Hangs", "faulty:NaNs", "faulty:Declines"]
SUITE = f"""
name: everywhere
device: cpu
axes: {{N: [96, 112, 128], H: 2, D: 16, causal: true}}
methods: {json.dumps(METHODS)}
budget: {{seconds: 0.3, timeout: 6, memory: 0.05}}
replicates: 2
report: {{tables: [summary], plots: []}}
"""
pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.timeout(900)]


@dataclass
class Where:
    """The words that say where, and what it is made of."""

    words: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    ray: Any = None
    slurm: dict[str, str] | None = None


@pytest.fixture(params=["one lane", "two lanes", "ray", "slurm"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Where]:
    with ExitStack() as opened:
        if request.param == "ray":
            ray = opened.enter_context(ray_nodes())
            words = ("--on", "ray", "--address", ray.address, "--resource", "GPU")
            # a method of one's own goes to the nodes with the folder that the run is started in
            for file in PLUGINS.glob("*.py"):
                shutil.copy(file, tmp_path)
            yield Where(words, {"PYTHONPATH": ""}, ray)
        elif request.param == "slurm":
            environment = opened.enter_context(slurm(tmp_path / "slurm"))
            words = ("--on", "slurm", "--array", "2", "--sbatch=--gres=gpu:1", "--wait")
            yield Where(words, {"SLURM_CONF": environment["SLURM_CONF"]}, slurm=environment)
        else:
            yield Where(("--lanes", "2" if request.param == "two lanes" else "1"))


def final(folder: Path) -> dict[tuple[str, int], tuple[str, list[int]]]:
    """Of each cell its status and its replicates."""
    run = RunFolder(folder)
    cells = summarize(run.info().cells, run.read())
    return {(cell.cell.method, cell.cell.problem.N): (cell.status, sorted(cell.medians)) for cell in cells}


def tries(records: list[Record]) -> list[tuple[str, Pass, int, int]]:
    # what an interruption ended counts for nothing, and is done again
    counted = [r for r in records if not (isinstance(r.outcome, Failed) and r.outcome.status is Status.INTERRUPTED)]
    timed = [r for r in counted if r.job.phase is not Pass.CHECK]
    return [(r.job.cell.key, r.job.phase, r.job.replicate, r.job.attempt) for r in timed]


def test_the_cells_end_alike_everywhere(where: Where, attnbench: Run, suite: Write, only_run: Find) -> None:
    fine(attnbench("run", suite(SUITE), *where.words, **where.environment))
    assert final(only_run()) == {
        (method, N): (FAULTS[method], [0, 1] if FAULTS[method] == "ok" else []) for method in METHODS for N in (96, 112, 128)
    }
    records = RunFolder(only_run()).records()
    assert len(tries(records)) == len(set(tries(records)))
    assert all(record.host and record.device for record in records)
    assert no_orphans()


MANY = """
name: everywhere
device: cpu
axes: {N: [96, 112, 128, 144], H: 2, D: 16, causal: true}
methods: ["plain:Plain", "softmax.sdpa", "softmax.naive"]
budget: {seconds: 0.3, timeout: 20}
replicates: 3
report: {tables: [summary], plots: []}
"""


def test_what_is_killed_loses_nothing(where: Where, start: Start, attnbench: Run, suite: Write, only_run: Find) -> None:
    process = start("run", suite(MANY), *where.words, **where.environment)
    wait_for_records(only_run, 5)
    kept = len(RunFolder(only_run()).records())
    if where.ray is not None:
        # as a machine that is switched off
        where.ray.remove_node(next(iter(where.ray.worker_nodes)), allow_graceful=False)
        done = end(process)
    elif where.slurm is not None:
        # one task is killed outright, and another begins anew
        (runner,) = [p for p in psutil.process_iter(["cmdline"]) if {"--shard", "1/2"} <= set(p.info["cmdline"] or [])]
        runner.kill()
        subprocess.run(["scontrol", "requeue", "1_2"], env=where.slurm, check=True)
        done = end(process)
        assert done.returncode == 1
        assert f"shard 1/2: FAILED; {only_run()}/slurm-1.out" in done.stderr
        done = attnbench("run", "--resume", str(only_run()), "--on", "slurm", "--wait", **where.environment)
        assert "1 of 2 tasks: " in done.stderr
    else:
        process.kill()
        process.communicate()
        assert no_orphans()
        done = attnbench("run", "--resume", str(only_run()), *where.words, **where.environment)
    assert done.returncode == 0, done.stderr
    records = RunFolder(only_run()).records()
    assert list(final(only_run()).values()) == [("ok", [0, 1, 2])] * 12
    assert len(records) > kept
    assert len(tries(records)) == len(set(tries(records)))
    assert no_orphans()


def test_the_commands_of_the_page_do_what_it_says(attnbench: Run, tmp_path: Path) -> None:
    (tmp_path / "scaling").write_text(SUITE.replace("everywhere", "scaling").replace(json.dumps(METHODS), '["softmax.sdpa"]'))
    text = (Path(__file__).parents[2] / "docs" / "scale.md").read_text(encoding="utf-8")
    shown = [shlex.split(line)[1:] for line in text.splitlines() if line.startswith("attnbench ")]
    devices, on_ray, on_slurm, shard, merge, again = shown
    assert attnbench(*devices).returncode == 2, "there are no GPUs here"
    with ray_nodes() as ray:
        words = " ".join(on_ray).replace("--device cuda", "--resource GPU").replace("auto", ray.address)
        fine(attnbench(*words.split()))
    here = str(next((tmp_path / "results" / "scaling").iterdir()))
    assert {record.device for record in RunFolder(Path(here)).records()} == {"cpu"}
    shutil.rmtree(tmp_path / "results")
    with slurm(tmp_path / "slurm") as environment:
        cpu = [word.replace("cuda", "cpu") for word in on_slurm]
        fine(attnbench(*cpu, SLURM_CONF=environment["SLURM_CONF"]))
        here = str(next((tmp_path / "results" / "scaling").iterdir()))
        done = fine(attnbench(*(here if "results/" in word else word for word in again), SLURM_CONF=environment["SLURM_CONF"]))
        assert "nothing is missing that is not in the queue" in done.stderr
    shutil.rmtree(tmp_path / "results")
    fine(attnbench(*shard))
    folders = [str(folder) for folder in (tmp_path / "results" / "scaling").iterdir()]
    done = fine(attnbench(*merge[:1], *folders))
    assert "merged without 1/8, 2/8, 4/8" in done.stderr
