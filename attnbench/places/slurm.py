"""Slurm: an array of tasks, each of which measures a shard of a run as a part of its folder."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from attnbench.schema.errors import AttnbenchError, UsageError

_SECONDS = 60.0
_QUEUED = "squeue", "--noheader", "--array", "--format=%K %T"
"""The number of each task that waits or runs, and its state."""


class SlurmError(AttnbenchError):
    """A command of Slurm is not here, or fails; the message is its own."""


def script(folder: Path, name: str, shards: int, options: str, here: Path) -> str:
    """Return what each task does: it goes on with its shard of the run in `folder`, started from `here`.

    Options that the user gives come last, and so count where one is named twice. A task that Slurm starts again goes on with
    what it has. Raises UsageError for options that are no words of a shell.
    """
    try:
        words = shlex.split(options)
    except ValueError as error:
        raise UsageError(f"the options {options!r} are no words of a shell: {error}") from None
    # a word that is no option is the value of the one before
    given = re.sub(r"\n(?!'?-)", " ", "\n".join(map(shlex.quote, words))).splitlines()
    directives = [
        f"--job-name={shlex.quote(f'attnbench-{name}')}",
        f"--array=1-{shards}",
        f"--output={shlex.quote(f'{folder}/slurm-%a.out')}",
        "--open-mode=append",
        "--requeue",
        *given,
    ]
    task = [sys.executable, "-P", "-m", "attnbench", "run", "--resume", str(folder), "--shard"]
    lines = [
        "#!/bin/bash",
        *(f"#SBATCH {each}" for each in directives),
        f"cd {shlex.quote(str(here))} || exit 1",
        f'exec {shlex.join(task)} "$SLURM_ARRAY_TASK_ID/{shards}"',
    ]
    return "\n".join(lines) + "\n"


def submit(file: Path, numbers: Iterable[int]) -> str:
    """Submit these tasks of a script, and return the number of the job. Raises SlurmError."""
    said = _run("sbatch", "--parsable", f"--array={','.join(map(str, numbers))}", str(file))
    return said.partition(";")[0].strip()


def queued(jobs: Sequence[str]) -> dict[int, str]:
    """Return the state of each task of these jobs that waits or runs, by its number. Raises SlurmError."""
    found: dict[int, str] = {}
    for job in jobs:
        try:
            said = _run(*_QUEUED, f"--jobs={job}")
        except SlurmError as error:
            # a job that has been gone for a while
            if "Invalid job id" in str(error):
                continue
            raise
        pairs = (line.split(maxsplit=1) for line in said.splitlines() if line.strip())
        found |= {int(number): state.strip() for number, state in pairs if number.isdecimal()}
    return found


def ended(job: str, number: int) -> str:
    """Say in Slurm's word how a task ended, as FAILED or TIMEOUT; empty where nobody remembers."""
    for command, pattern in (
        (("sacct", "--noheader", "--parsable2", "--allocations", "--format=State", f"--jobs={job}_{number}"), r"^(\w+)"),
        (("scontrol", "--oneliner", "show", "job", f"{job}_{number}"), r"\bJobState=(\w+)"),
    ):
        try:
            if match := re.search(pattern, _run(*command)):
                return match[1]
        except SlurmError:
            # without accounting there is no sacct, and scontrol forgets a job after some minutes
            continue
    return ""


def _run(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False)
    except FileNotFoundError:
        raise SlurmError(f"{command[0]} is not here: submit from a machine that has Slurm's commands") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SlurmError(f"{command[0]}: {error}") from None
    if done.returncode:
        raise SlurmError(" / ".join(done.stderr.strip().splitlines()[-3:]) or f"{command[0]} ended with {done.returncode}")
    return done.stdout
