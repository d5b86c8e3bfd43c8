"""What tests of every room share: the fixture plugins, reachable by name, also in child processes."""

import atexit
import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from attnbench.schema.cell import Cell
    from attnbench.schema.run import RunInfo
    from attnbench.worker.isolate import Isolation

# two threads on a busy machine wait for each other at every operator; torch reads it when it is imported
os.environ.setdefault("OMP_NUM_THREADS", "1")

# one list of fonts for all processes, also where a test has a cache of its own: to make it takes a second or two
_CACHES = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
os.environ.setdefault("MPLCONFIGDIR", str(_CACHES / "matplotlib"))

# a lane for each worker of these tests, which so need not wait for each other; none is shared with who measures on this machine
_RUNTIME = tempfile.TemporaryDirectory(prefix="attnbench-tests-")
os.environ["XDG_RUNTIME_DIR"] = _RUNTIME.name

PLUGINS = Path(__file__).parent / "plugins"
atexit.register(gc.unfreeze)  # what is not collected at the end is told by Triton, on a hundred lines, as leaked


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A process whose GPU was lost to a bad kernel ends: all its later tests would fail of it. xdist starts another one."""
    report = yield
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if report.failed and cuda is not None and cuda.is_initialized():
        try:
            cuda.synchronize()
        except RuntimeError as error:
            if not hasattr(item.config, "workerinput"):
                pytest.exit(f"{item.nodeid} lost the GPU: {error}", returncode=1)
            print(f"{item.nodeid} lost the GPU\n{report.longreprtext}", file=sys.__stderr__, flush=True)
            os._exit(1)
    return report


@pytest.fixture(scope="module", autouse=True)
def _what_is_there_stays() -> None:
    """A collection of garbage, as before each measurement, walks neither ten thousand tests nor all of torch."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _gradients() -> Iterator[None]:
    """Measuring sets whether gradients are taken, for a process of its own; here tests share one."""
    yield
    if "torch" in sys.modules:
        sys.modules["torch"].set_grad_enabled(True)


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of fixture attentions on the path, and caches of its own for the test."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(PLUGINS), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("ATTNBENCH_TEST_MARKS", str(tmp_path / "marks"))
    monkeypatch.syspath_prepend(str(PLUGINS))
    return PLUGINS


@pytest.fixture(scope="module")
def warm() -> Iterator["Isolation"]:
    """A server that knows the fixture attentions; to start one takes two seconds."""
    from attnbench.worker.isolate import Isolation

    with Isolation(packages=PLUGINS) as isolation:
        yield isolation


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Scratch grows with the threads; and what sets torch's modes for its whole process sets them for one test."""
    import torch

    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision(precision)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working folder and a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `attnbench …` in this process: how it ended, and what it printed."""
    from attnbench.cli.app import main

    def _run(*words: object) -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(sys, "argv", ["attnbench", *map(str, words)])
        with pytest.raises(SystemExit) as left:
            main()
        code, out = left.value.code, capsys.readouterr()
        return subprocess.CompletedProcess([*map(str, words)], int(code or 0), out.out, out.err)

    return _run


@pytest.fixture
def refused(command: Callable[..., subprocess.CompletedProcess[str]]) -> Callable[..., str]:
    """Run `attnbench …` in this process; the words in which it is refused as bad input."""

    def _refused(*words: object) -> str:
        done = command(*words)
        assert done.returncode == 2, done
        return done.stderr.removeprefix("error: ").rstrip("\n")

    return _refused


@pytest.fixture(scope="session")
def info_of() -> "Callable[..., RunInfo]":
    """Describe a run of cells, on a CPU; `suite` are fields of its suite, all others those of the run."""
    from attnbench.schema.run import RunInfo

    def _described(cells: "Sequence[Cell]", suite: dict[str, Any] | None = None, **changes: Any) -> RunInfo:
        axes, methods = {"N": sorted({cell.problem.N for cell in cells})}, list(dict.fromkeys(cell.method for cell in cells))
        known: dict[str, Any] = {
            **{"id": "x", "command": "attnbench run t", "started": "2026-01-02T03:04:05+00:00", "environment": {}},
            **{"environment_digest": "e", "methods": {}, "cells": [cell.model_dump(mode="json") for cell in cells]},
            "suite": {"name": "t", "device": "cpu", "axes": axes, "methods": methods, "replicates": 1, **(suite or {})},
            "surroundings": {"device": "cpu", "facts": {}, "memory_bytes": 2**34, "roof": {}},
        }
        return RunInfo.model_validate_json(json.dumps({**known, **changes}))

    return _described


@pytest.fixture
def measuring() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start a process that is measuring on the CPU, or on the GPU with the UUID that is named, until it is killed."""
    with ExitStack() as stack:

        def _start(*gpu: str, **env: str) -> subprocess.Popen[bytes]:
            command = [sys.executable, str(Path(__file__).parent / "lane_holder.py"), *gpu]
            process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, **env}))
            stack.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == b"held\n"
            return process

        yield _start


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put scripts in the place of Slurm's commands; what each was called with stands in `said`."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def _play(**commands: str) -> None:
        for name, script in commands.items():
            file = tmp_path / name
            file.write_text(f'#!/bin/sh\necho {name} "$@" >> {tmp_path}/said\n{script}\n')
            file.chmod(0o755)

    return _play


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    """One for all tests; as root it has no sandbox."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield launched
        launched.close()
