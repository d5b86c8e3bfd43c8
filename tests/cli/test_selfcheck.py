"""`attnbench selfcheck` from its words to its files, played by a fake of the method and the machine; at the end a real one."""

import json
import math
import random
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest

from attnbench.cli.app import app
from attnbench.cli.terminal import Interrupted
from attnbench.schema.errand import Answer, Description, Errand, Inquiry, Job, Pass, Prospect, Surroundings, Survey
from attnbench.schema.errors import UsageError
from attnbench.schema.outcome import Failed, Measured, Series, Status
from attnbench.store.cache import known_noise_floor
from attnbench.store.run_folder import RunFolder
from tests.cli.conftest import Find, Run, fine
from tests.schedule.played import FakeWorker

Check = Callable[[str], str]
FILES = {"run.json", "plan.json", "records.jsonl", "selfcheck.json", "selfcheck.md", "selfcheck.png", "selfcheck.svg"}


@dataclass
class Machine(FakeWorker):
    """One method whose processes vary by 2 %."""

    interrupt_at: int | None = None
    version: str = "1"
    gpu: str = "GPU-1"

    def __call__(self, *_: object) -> Self:
        return self

    def close(self) -> None: ...

    def ask(self, errand: Errand, timeout: float) -> tuple[Answer, float]:
        if isinstance(errand, Survey):
            return Surroundings(device="cpu", facts={"threads": 1, "gpu_uuid": self.gpu}, memory_bytes=10**9, roof={}), 0.1
        if isinstance(errand, Inquiry):
            prospects = tuple(Prospect() for _ in errand.cells)
            about = {"paper": "", "tier": "eager", "causality": "full", "summary": "", "version": self.version}
            return Description.model_validate({"method": errand.method, "prospects": prospects, **about}), 0.1
        if len(self.jobs) == self.interrupt_at:
            self.interrupt_at = None
            raise Interrupted(signal.SIGINT)
        return super().ask(errand, timeout)


def measured(job: Job) -> Measured:
    wobble = math.exp(random.Random(job.replicate).gauss(0, 0.02))
    seconds = 5e-3 * wobble * (1 + float(job.cell.params.get("share", 0)))
    return Measured(samples={"time": Series(unit="s", values=(seconds,))}, facts={"warmup_calls": 3})


@pytest.fixture
def machine(place: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    machine = Machine(measured)
    monkeypatch.setattr("attnbench.places.station.Isolation", machine)
    # nothing is measured, and nobody waits for a machine that measures
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return machine


@pytest.fixture
def run(machine: Machine, capsys: pytest.CaptureFixture[str]) -> Check:
    """The command with these words; what it prints, or whatever it raises."""

    def _run(words: str) -> str:
        app(["selfcheck", *words.split()], standalone_mode=False)
        return capsys.readouterr().out

    return _run


def only_folder() -> Path:
    (folder,) = Path("results").glob("selfcheck/*")
    return folder


def timed() -> Counter[int]:
    """Processes that have their time."""
    records = RunFolder(only_folder()).records()
    return Counter(record.job.replicate for record in records if record.job.phase is Pass.TIME and record.ok)


def test_it_measures_every_process_and_leaves_figures(run: Check, machine: Machine) -> None:
    said = run("--verdicts 12 --replicates 3 --N 96 --method softmax.naive --seconds 0.3")
    assert timed() == dict.fromkeys(range(72), 1)
    assert {file.name for file in only_folder().iterdir()} >= FILES
    assert "12 verdicts x 2 sides x 3 processes" in " ".join(said.split())
    assert "selfcheck of softmax.naive" in said
    assert {(job.cell.method, job.cell.problem.N, job.limits.seconds) for job in machine.jobs} == {("softmax.naive", 96, 0.3)}
    assert "not kept as the noise floor of this machine: that takes 100 verdicts" in " ".join(said.split())
    info = RunFolder(only_folder()).info()
    assert info.suite.replicates == 72, "other commands read it as one cell with so many replicates"
    assert known_noise_floor(info.environment_digest) is None


def test_a_hundred_verdicts_are_kept_for_the_gate(run: Check) -> None:
    said = run("--verdicts 100 --replicates 3")
    info = RunFolder(only_folder()).info()
    known = known_noise_floor(info.environment_digest)
    assert known is not None
    assert (known.run, known.verdicts, known.device) == (info.id, 100, "cpu")
    assert known.at(2) == (least := known.at(3) or 0.0)
    assert 0.05 < least < 0.25
    assert f"kept for attnbench gate: +{100 * least:.3g}% with 3 a side" in " ".join(said.split())


def test_what_was_interrupted_is_kept_and_goes_on_on_another_gpu_of_its_kind(
    run: Check, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.interrupt_at = 7
    with pytest.raises(SystemExit) as ended:
        run("--verdicts 4 --replicates 2")
    assert ended.value.code == 130
    folder = only_folder()
    assert f"go on with: attnbench selfcheck --resume {folder}" in capsys.readouterr().err
    assert sum(timed().values()) == 7

    machine.version = "2"
    with pytest.raises(UsageError, match=r"cannot be continued(.|\n)*method.softmax.sdpa: '1' then, '2' now"):
        run(f"--resume {folder}")
    machine.version, machine.gpu = "1", "GPU-2"
    run(f"--resume {folder}")
    assert timed() == dict.fromkeys(range(16), 1)
    assert len(machine.jobs) == 16
    assert Counter(record.device for record in RunFolder(folder).records() if record.ok) == {"GPU-1": 7, "GPU-2": 9}


def test_a_whole_one_is_reported_again_at_another_margin_and_measures_nothing(run: Check, machine: Machine) -> None:
    run("--verdicts 4 --replicates 2")
    (only_folder() / "selfcheck.md").unlink()
    before = (only_folder() / "records.jsonl").read_bytes()
    machine.version = "2"
    assert "margin 12%" in run(f"--resume {only_folder()} --margin 12%")
    assert json.loads((only_folder() / "selfcheck.json").read_text())["margin"] == 0.12
    assert (only_folder() / "selfcheck.md").exists()
    assert (only_folder() / "records.jsonl").read_bytes() == before
    assert RunFolder(only_folder()).plan().margin == 0.05


def test_a_slow_down_made_on_purpose_is_measured_on_one_side_and_found(run: Check, machine: Machine) -> None:
    said = run("--verdicts 12 --replicates 5 --inject 30%")
    assert Counter(job.cell.params["share"] for job in machine.jobs) == {0.0: 60, 0.3: 60}
    assert {job.cell.params["method"] for job in machine.jobs} == {"softmax.sdpa"}
    data = json.loads((only_folder() / "selfcheck.json").read_text())
    assert data["paired"][-1]["slower"]["hits"] == 12
    assert data["overall"]["ratio"] == pytest.approx(1.3, abs=0.02)
    assert not (only_folder() / "selfcheck.png").exists()
    assert "noise floor" not in said


def test_a_method_that_fails_is_tried_once_and_said(run: Check, machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.answer = lambda _: Failed(status=Status.ERROR, reason="it raises")
    with pytest.raises(SystemExit) as ended:
        run("--verdicts 4")
    assert ended.value.code == 1
    assert "error: nothing gave a time: error: it raises" in capsys.readouterr().err
    assert len(machine.jobs) == 1
    assert (only_folder() / "selfcheck.json").exists()


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(900)
def test_a_real_slow_down_made_on_purpose_is_found_and_has_its_size(attnbench: Run, only_run: Find) -> None:
    words = "--N 256 --replicates 5 --seconds 0.1 --verdicts 10 --inject 100%"
    fine(attnbench("selfcheck", *words.split()))
    data = json.loads((only_run() / "selfcheck.json").read_text())
    # however loud the machine is
    assert data["overall"]["low"] * 0.8 < 2.0 < data["overall"]["high"] * 1.25
    assert data["paired"][-1]["faster"]["hits"] == 0
