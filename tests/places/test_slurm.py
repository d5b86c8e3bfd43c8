"""What is said to Slurm, and how its answers are read; its commands are played by scripts."""

from collections.abc import Callable
from pathlib import Path

import pytest

from attnbench.library.submit import Submission
from attnbench.places import slurm
from attnbench.places.slurm import SlurmError
from attnbench.schema.errors import UsageError
from attnbench.store.run_folder import RunFolder
from tests.schedule.played import run_of

Play = Callable[..., None]


def test_a_task_goes_on_with_its_shard_and_the_user_s_options_come_last() -> None:
    options = "--gres=gpu:1 --time=2:00:00 -p 'big mem' --comment='fast -x run'"
    *lines, last = slurm.script(Path("/shared/my runs/1"), "scaling", 32, options, Path("/elsewhere")).splitlines()
    assert lines == [
        "#!/bin/bash",
        "#SBATCH --job-name=attnbench-scaling",
        "#SBATCH --array=1-32",
        "#SBATCH --output='/shared/my runs/1/slurm-%a.out'",
        "#SBATCH --open-mode=append",
        "#SBATCH --requeue",
        "#SBATCH --gres=gpu:1",
        "#SBATCH --time=2:00:00",
        "#SBATCH -p 'big mem'",
        "#SBATCH '--comment=fast -x run'",
        "cd /elsewhere || exit 1",
    ]
    assert last.endswith("""-m attnbench run --resume '/shared/my runs/1' --shard "$SLURM_ARRAY_TASK_ID/32\"""")
    with pytest.raises(UsageError, match="no words of a shell: No closing quotation"):
        slurm.script(Path("/x"), "s", 1, "--comment='half", Path("/"))


def test_tasks_are_submitted_or_slurm_s_words_say_why_not(play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play(sbatch="echo '4711;cluster'")
    assert slurm.submit(tmp_path / "slurm.sh", [3, 7]) == "4711"
    assert (tmp_path / "said").read_text() == f"sbatch --parsable --array=3,7 {tmp_path}/slurm.sh\n"
    play(sbatch="echo 'sbatch: error: invalid partition specified: none' >&2; exit 1")
    with pytest.raises(SlurmError, match="invalid partition specified: none"):
        slurm.submit(tmp_path / "slurm.sh", [1])
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with pytest.raises(SlurmError, match="sbatch is not here: submit from a machine that has Slurm's commands"):
        slurm.submit(tmp_path / "slurm.sh", [1])


def test_the_queue_is_read_by_tasks_and_a_job_that_is_forgotten_has_none(play: Play) -> None:
    play(squeue='case "$*" in *--jobs=1) echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1;; esac\n'
         "echo '2 RUNNING'; echo '17 PENDING'; echo 'N/A RUNNING'")  # fmt: skip
    assert slurm.queued(["1", "2"]) == {2: "RUNNING", 17: "PENDING"}


def test_how_a_task_ended_is_asked_of_the_accounts_and_else_of_the_controller(play: Play) -> None:
    play(sacct="echo 'Slurm accounting storage is disabled' >&2; exit 1", scontrol="echo 'JobId=5 JobState=TIMEOUT Reason=x'")
    assert slurm.ended("4", 2) == "TIMEOUT"
    play(sacct="echo OUT_OF_MEMORY")
    assert slurm.ended("4", 2) == "OUT_OF_MEMORY"
    play(sacct="exit 1", scontrol="exit 1")
    assert slurm.ended("4", 2) == ""


def test_waiting_outlasts_a_controller_started_anew_and_tells_each_change_and_each_end_once(play: Play, tmp_path: Path) -> None:
    suite = {"name": "t", "axes": {"N": ["2^7..2^9"], "causal": [True]}, "methods": ("softmax.sdpa",), "replicates": 2}
    submission = Submission(RunFolder.create(tmp_path / "results", run_of(suite)), "", 3, ("9",))
    # busy, silent, busy as before, then over
    play(
        squeue=f'n=$(wc -l < {tmp_path}/said)\n[ "$n" = 2 ] && {{ echo "Unable to contact slurm controller" >&2; exit 1; }}\n'
        '[ "$n" -ge 4 ] || { echo "1 RUNNING"; echo "2 PENDING"; }',
        sacct="echo CANCELLED by 0",
    )
    told: list[str] = []
    assert submission.wait(told.append, every=0.01) == [1, 2, 3]
    assert told == ["1 of 3 tasks are over; 1 running, 1 pending"]
    assert submission.endings([2]) == [f"shard 2/3: CANCELLED; {submission.folder.path}/slurm-2.out"]
