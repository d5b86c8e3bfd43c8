"""One measurement at a time on a device: whoever finds it taken waits and says for whom, or is refused."""

import errno
import fcntl
import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from attnbench.places import lane as module
from attnbench.places.lane import Lane, LaneError, LaneTakenError
from attnbench.schema.errand import Surroundings
from attnbench.schema.noun import Scalar

Measuring = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture(autouse=True)
def folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock of the lane lies in the folder of the test."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


def device(**facts: Scalar | None) -> Surroundings:
    return Surroundings(device="cpu", facts=facts, memory_bytes=1, roof={})


CPU, GPU = device(), device(gpu_uuid="GPU-1/2")


def test_a_device_that_is_taken_is_waited_for_and_its_holder_is_named(measuring: Measuring) -> None:
    # who has begun takes turns, though it did not want to wait at first
    lane, said = Lane(wait=False), list[str]()
    with lane.held(CPU):
        pass
    other = measuring()

    def say(text: str) -> None:
        said.append(text)
        other.kill()

    lane.say = say
    with lane.held(CPU):
        assert other.wait() == -9
    assert len(said) == 1
    assert said[0].startswith(f"waiting for process {other.pid} (attnbench; since 20")


def test_a_holder_is_named_by_its_command_and_once_though_turns_are_taken() -> None:
    first, said = Lane(command="attnbench run 'my suite.yaml'"), list[str]()
    free, taken = threading.Event(), threading.Event()

    def measure() -> None:
        for _ in range(2):
            with first.held(CPU):
                taken.set()
                free.wait()
                free.clear()

    def say(text: str) -> None:
        said.append(text)
        free.set()

    second, other = Lane(say=say), threading.Thread(target=measure)
    other.start()
    taken.wait()
    with second.held(CPU):
        taken.clear()
    taken.wait()
    # nobody is told this time: the other one goes on by itself
    threading.Timer(0.2, free.set).start()
    with second.held(CPU):
        pass
    other.join()
    assert len(said) == 1
    assert f"process {os.getpid()} (attnbench run 'my suite.yaml'; since 20" in said[0]


def test_whoever_does_not_want_to_wait_is_refused_until_the_holder_dies_untold(measuring: Measuring, tmp_path: Path) -> None:
    # the lane is the same wherever temporary files lie
    (tmp_path / "elsewhere").mkdir()
    other, said = measuring(TMPDIR=str(tmp_path / "elsewhere")), list[str]()
    lane = Lane(wait=False, say=said.append)
    with pytest.raises(LaneTakenError, match=rf"process {other.pid} \(attnbench; since .*\) is measuring on this device"):
        lane.held(CPU).__enter__()
    other.kill()
    other.wait()
    with lane.held(CPU):
        assert said == []


def test_each_gpu_has_a_lane_of_its_own(measuring: Measuring) -> None:
    measuring("GPU-1/2")
    with Lane(wait=False).held(CPU), Lane(wait=False).held(device(gpu_uuid="GPU-3")), pytest.raises(LaneTakenError):
        Lane(wait=False).held(GPU).__enter__()


def test_lanes_with_a_core_in_common_take_turns_however_many_lanes_their_runs_have() -> None:
    with Lane(part="cores 0,1").held(CPU), Lane(wait=False, part="cores 2").held(CPU):
        for part in ("cores 1", "cores 2,10", ""):
            with pytest.raises(LaneTakenError):
                Lane(wait=False, part=part).held(CPU).__enter__()


def test_the_folder_is_that_of_the_user_and_else_one_that_all_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert module._folder() == tmp_path
    given = Path(f"/run/user/{os.getuid()}")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "none"))
    assert module._folder() == (given if given.is_dir() else Path("/tmp"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000)
    assert module._folder() == Path("/tmp"), "the folder of another user is not taken"


def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / f"attnbench-lane-{os.getuid()}-cpu.lock").symlink_to(tmp_path / "precious")
    with pytest.raises(LaneError, match=r"attnbench-lane-.*-cpu\.lock.* cannot be used \(.*\); set XDG_RUNTIME_DIR"):
        Lane().held(CPU).__enter__()
    assert not (tmp_path / "precious").exists()


def test_a_place_without_locks_is_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(LaneError, match="No locks available"):
        Lane().held(CPU).__enter__()
