"""`attnbench run --lanes`, for real: each lane has cores of its own, and an interruption ends all of them."""

import signal

import pytest

from attnbench.schema.errand import Pass
from attnbench.schema.outcome import Failed, Status
from attnbench.store.run_folder import RunFolder
from tests.cli.conftest import Find, Run, Start, Write, wait_for_records
from tests.cli.test_run import BRIEF, finished, no_orphans, read


@pytest.mark.slow
def test_in_two_lanes_each_bundle_stays_on_its_own_cores(attnbench: Run, suite: Write, only_run: Find) -> None:
    done = attnbench("run", suite(BRIEF.replace("replicates: 1", "replicates: 3")), "--lanes", "2")
    assert done.returncode == 0, done.stderr
    records, info = read(only_run()), RunFolder(only_run()).info()
    cores = {(r.job.cell.problem.N, r.device) for r in records if r.seconds is not None and r.job.phase is not Pass.CHECK}
    assert {device for _, device in cores} == {"cores 0", "cores 1"}
    assert len(cores) == 2, "one bundle was measured on both"
    assert {r.outcome.facts["threads"] for r in records if r.ok and r.job.phase is Pass.TIME} == {1}
    assert (info.environment["lanes"], info.environment["cores"]) == (2, 1)


@pytest.mark.slow
def test_an_interruption_ends_all_lanes_and_what_was_in_hand_is_measured_again(
    start: Start, attnbench: Run, only_run: Find, suite: Write
) -> None:
    process = start("run", suite(BRIEF), "--lanes", "2")
    wait_for_records(only_run, 3)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=8)
    assert process.returncode == 130, err
    assert "go on with: attnbench run --resume" in err
    assert no_orphans()
    before = read(only_run())
    cut = [r for r in before if isinstance(r.outcome, Failed) and r.outcome.status is Status.INTERRUPTED]
    assert 1 <= len({r.device for r in cut}) == len(cut)
    other = attnbench("run", "--resume", str(only_run()))
    assert other.returncode == 2
    assert "environment.lanes: 2 then, None now" in other.stderr
    done = attnbench("run", "--resume", str(only_run()), "--lanes", "2")
    assert done.returncode == 0, done.stderr
    records = read(only_run())
    assert records[: len(before)] == before
    assert set(finished(records).values()) == {1}
    cores = {(r.job.cell.problem.N, r.device) for r in records if r.seconds is not None and r.job.phase is not Pass.CHECK}
    assert len(cores) == 2
