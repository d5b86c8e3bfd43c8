"""The commands that judge and export, on runs that train and generate."""

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from attnbench.schema.cell import Batch, Workload
from attnbench.schema.outcome import Status
from attnbench.schema.training import Task, Training
from tests.cli.conftest import Run, fine
from tests.report.conftest import Law, Synthetic
from tests.report.exports.conftest import folder_of

pytestmark = pytest.mark.usefixtures("place")
Store = Callable[..., str]


@pytest.fixture
def both(both: Synthetic) -> Synthetic:
    """One method fails in both, and the others are further apart."""
    laws = (
        Law("softmax.sdpa", 3e-3, 1.95, tier="library", learns=0.5, state=2**22),
        Law("linear.chunked", 2e-3, 1.0, {"chunk": 64}, learns=0.505, state=2**17),
        Law("lsh.reformer", 9e-3, 1.1, {"rounds": 1}, learns=0.8, state=2**20),
        Law("sparse.strided", 2e-3, 1.5, stop_at=1, status=Status.ERROR, reason="there is no room"),
    )
    return replace(both, laws=laws, replicates=5)


@pytest.fixture
def store(both: Synthetic) -> Store:
    """Write the run of a day, `factor` times as slow, to the disk; gives its folder."""

    def _store(day: int = 1, factor: float = 1.0) -> str:
        slowed = replace(both, laws=[replace(law, seconds=factor * law.seconds) for law in both.laws])
        return folder_of(Path(f"results/synthetic/{day:02}"), slowed, day).as_posix()

    return _store


# judging


def test_the_conditions_of_a_row_name_the_task_where_there_are_several(both: Synthetic, store: Store, command: Run) -> None:
    both.workloads, both.batches = (Workload.TRAIN,), (Batch.FIXED,)
    both.trainings = (Training(task=Task.PIXELS, layers=2), Training(task=Task.BYTES, data="/a|b\n.txt"))
    fine(command("compare", store(1), store(2), "--out", "c.md"))
    text = Path("c.md").read_text()
    assert "task=pixels, layers=2" in text
    assert r"task=bytes, data=/a\|b .txt" in text


def test_a_gate_says_what_became_slower_and_that_what_was_learnt_is_not_judged(store: Store, command: Run) -> None:
    old, same, new = store(1), store(2), store(3, factor=10)
    fine(command("gate", "--stored", old, same, "--margin", "20%"))
    done = command("gate", "--stored", old, new, "--margin", "20%", "--json", "gate.json", "--out", "gate.md")
    assert done.returncode == 1, done.stderr
    cells = json.loads(Path("gate.json").read_text())["cells"]
    for workload in ("train", "generate"):
        assert {cell["verdict"] for cell in cells if cell["workload"] == workload} == {"SLOWER", "ABSENT"}
    text = Path("gate.md").read_text()
    assert "there is no room" in text
    assert "not what was learnt" in text


# crossovers and trends


def test_losses_and_accuracies_are_compared_over_length(both: Synthetic, store: Store, command: Run) -> None:
    both.trainings, both.lengths, both.batches = (Training(task=Task.COPY, updates=100),), (64, 128, 256), (Batch.FIXED,)
    folder = store()
    done = fine(command("crossover", folder, "--metric", "loss", "--of", "softmax.sdpa", "--over", "lsh.reformer(rounds=1)"))
    said = " ".join(done.stdout.split())
    assert "softmax.sdpa has learnt to a smaller loss than lsh.reformer(rounds=1), training, causal" in said
    assert "generate" not in said
    right = command("crossover", folder, "--metric", "accuracy", "--of", "lsh.reformer", "--out", "a.csv")
    assert "softmax.sdpa stays ahead of lsh.reformer(rounds=1)" in " ".join(right.stdout.split())
    assert {row["metric"] for row in csv.DictReader(Path("a.csv").read_text().splitlines())} == {"accuracy"}


def test_times_of_models_have_crossovers_too_and_a_metric_that_no_cell_has_is_refused(store: Store, command: Run) -> None:
    folder = store()
    done, refused = command("crossover", folder), command("crossover", folder, "--metric", "accuracy")
    assert "training, causal, float32, B=1" in " ".join(done.stdout.split())
    assert (done.returncode, refused.returncode) == (0, 2)
    assert "it has: time, first_call, tokens, throughput, memory, state, loss, bits" in " ".join(refused.stderr.split())


def test_a_history_of_trainings_finds_what_changed_and_names_tracks_by_task(
    both: Synthetic, store: Store, command: Run
) -> None:
    both.laws, both.replicates, both.batches = both.laws[:1], 2, (Batch.FIXED,)
    both.workloads = (Workload.TRAIN, Workload.FORWARD)
    both.trainings = (Training(task=Task.COPY), Training(task=Task.RECALL, pairs=4))
    for day in range(1, 13):
        store(day, factor=10 if day > 6 else 1.0)
    said = " ".join(fine(command("trend", "results", "--html", "trend.html")).stdout.split())
    # each of them learns the same
    assert "3 SLOWER" in said, said
    tracks = ("copy, pairs=8", "recall, pairs=4", "softmax.sdpa, N=64, forward")
    assert [name for name in tracks if name not in said] == []


# exports


@pytest.mark.parametrize("to", ["pytest-benchmark", "asv", "otava", "pyperf", "github-action-benchmark", "bencher"])
def test_every_export_takes_models(to: str, store: Store, command: Run) -> None:
    out = "out" if to in {"asv", "otava"} else "out.json"
    done = fine(command("export", store(), "--to", to, "--out", out))
    files = [Path(out)] if Path(out).is_file() else [file for file in Path(out).rglob("*") if file.is_file()]
    text = "".join(file.read_text() for file in files)
    assert "train" in text
    assert "task=pixels" in text
    assert "sparse.strided at 64: there is no room" in done.stderr
