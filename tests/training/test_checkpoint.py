"""Checkpoints: a training that was cut off goes on bit for bit, and what trained models project is recorded from them."""

import os
import signal
import subprocess
import sys
import textwrap
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from attnbench.schema.cell import Cell
from attnbench.schema.errand import Job, Pass
from attnbench.store.run_folder import checkpoint_of
from attnbench.training.checkpoint import Keeper, read, resume, save, weights
from attnbench.training.loop import Progress, train
from attnbench.training.recorder import CheckpointError, record, record_file
from attnbench.training.tasks import task_of
from attnbench.training.transformer import Transformer, plan_of
from tests.training.conftest import TEXT, following, small_cell

HELD_OUT = following(10, torch.Generator().manual_seed(99))
# by shuffled rows, by random numbers of its own, with a codebook, with parameters of its own
METHODS = ["softmax.sdpa", "lsh.reformer", "vq.blockwise", "context.transformer_xl", "model_cases:Draws", "model_cases:Moves"]


class CutOffError(Exception):
    """The machine goes away."""


def job_of(cell: Cell, folder: Path, **fields: Any) -> Job:
    return Job(cell=cell, phase=Pass.TRAIN, folder=str(folder), **{"seed": 3, **fields})


def begin(job: Job) -> Progress:
    torch.manual_seed(job.seed + 1)
    return Progress.begin(Transformer(job.cell, TEXT, job.seed), job.seed)


def run(job: Job, cut_after: int | None = None) -> tuple[Progress, str | None]:
    """To the end, or until it is cut off, just after it was saved."""
    progress, ignored = resume(lambda: begin(job), job)

    def keep(progress: Progress) -> None:
        if progress.updates == cut_after:
            save(progress, job)
            raise CutOffError

    train(progress, following, HELD_OUT, 1e9, keep)
    Keeper(job).keep(progress)
    return progress, ignored


def same(a: Progress, b: Progress) -> bool:
    pairs = [(a.model.state_dict(), b.model.state_dict())]
    states = [each.optimiser.state_dict()["state"] for each in (a, b)]
    pairs += [(states[0][i], states[1][i]) for i in states[0]]
    equal = all(x.keys() == y.keys() and all(torch.equal(x[n], y[n]) for n in x) for x, y in pairs)
    return equal and a.curve.losses == b.curve.losses and a.curve.updates == b.curve.updates


@pytest.mark.parametrize(
    ("method", "cut_after"),
    [
        *((method, 4) for method in METHODS),
        *((METHODS[0], cut) for cut in (1, 7)),
        *(pytest.param(method, cut, marks=pytest.mark.slow) for method in METHODS[1:] for cut in (1, 7)),
    ],
)
def test_a_training_that_was_cut_off_goes_on_bit_for_bit(tmp_path: Path, method: str, cut_after: int) -> None:
    job = job_of(small_cell(method), tmp_path / "cut")
    with pytest.raises(CutOffError):
        run(job, cut_after)
    torch.manual_seed(12345)
    resumed, ignored = run(job)
    whole, _ = run(job_of(job.cell, tmp_path / "whole"))
    assert ignored is None
    assert resumed.updates == whole.updates == 12
    assert same(resumed, whole)


def test_what_was_measured_is_kept_and_the_last_checkpoint_holds_the_trained_model(tmp_path: Path) -> None:
    job = job_of(small_cell(), tmp_path)
    with pytest.raises(CutOffError):
        run(job, cut_after=5)
    begun, _ = resume(lambda: begin(job), job)
    assert begun.updates == 5
    assert begun.curve.updates == [0, 4]
    first = list(begun.seconds)
    progress, _ = run(job)
    assert progress.seconds[:5] == first
    about, tensors = read(checkpoint_of(tmp_path, job.cell, 0))
    assert Cell.model_validate_json(about["cell"]) == job.cell
    assert about["update"] == "12"
    torch.testing.assert_close(weights(tensors), dict(progress.model.state_dict()), rtol=0, atol=0)
    again, ignored = run(job)
    assert (again.updates, ignored) == (12, None), "there is nothing left to do"
    assert same(again, progress)


def test_a_checkpoint_of_another_training_is_left_aside_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_of(small_cell(), tmp_path)
    for changed, reason in (({"seed": 4}, "seed is 3, not 4"), ({"B": 9}, "batch is 4, not 9"), ({}, "key is ")):
        other = job_of(job.cell if changed else small_cell(layers=3), tmp_path, **changed)
        save(begin(job), job).rename(checkpoint_of(tmp_path, other.cell, 0))
        assert str(resume(partial(begin, other), other)[1]).startswith(f"its {reason}")
    progress = begin(job)
    progress.data = "a text, 12ab"
    save(progress, job)
    assert resume(lambda: begin(job), job)[1] == "its data is a text, 12ab, not "
    save(begin(job), job)
    monkeypatch.setattr("attnbench.training.checkpoint._trainer", lambda: "9.9 other")
    assert str(resume(lambda: begin(job), job)[1]).endswith(", not 9.9 other")
    monkeypatch.setattr(torch, "__version__", "9.9.9")
    about, _ = read(checkpoint_of(tmp_path, job.cell, 0))
    assert resume(lambda: begin(job), job)[1] == f"its torch is {about['torch']}, not 9.9.9"


@pytest.mark.parametrize("keep", [0, 7, 100, -200])
def test_a_torn_file_is_left_aside_and_the_training_begins_anew(tmp_path: Path, keep: int) -> None:
    job = job_of(small_cell(), tmp_path)
    with pytest.raises(CutOffError):
        run(job, cut_after=5)
    file = checkpoint_of(tmp_path, job.cell, 0)
    file.write_bytes(file.read_bytes()[:keep])
    progress, ignored = run(job)
    assert str(ignored).startswith("it cannot be read: ")
    assert same(progress, run(job_of(job.cell, tmp_path / "whole"))[0])


def test_a_file_that_lacks_a_tensor_leaves_nothing_half_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_of(small_cell(), tmp_path)
    with pytest.raises(CutOffError):
        run(job, cut_after=5)

    def without_order(file: Path) -> tuple[dict[str, str], dict[str, torch.Tensor]]:
        about, tensors = read(file)
        return about, {name: x for name, x in tensors.items() if name != "random.order"}

    monkeypatch.setattr("attnbench.training.checkpoint.read", without_order)
    progress, ignored = resume(lambda: begin(job), job)
    assert (progress.updates, ignored) == (0, "it cannot be read: 'random.order'")
    assert same(progress, begin(job))


def test_it_is_saved_every_half_minute_but_not_at_the_end_before_it_was_judged(tmp_path: Path) -> None:
    clock = iter(range(0, 10_000, 8))
    job = job_of(small_cell(), tmp_path)
    keeper, file, saved = Keeper(job, now=lambda: float(next(clock))), checkpoint_of(tmp_path, job.cell, 0), []

    def keep(progress: Progress) -> None:
        file.unlink(missing_ok=True)
        keeper.now_and_then(progress)
        if file.exists():
            saved.append(progress.updates)

    train(begin(job), following, HELD_OUT, 1e9, keep)
    assert saved == [4, 8]


def test_what_cannot_be_written_is_said_and_no_folder_means_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(job_of(small_cell(), tmp_path).model_copy(update={"folder": None}))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "a file").touch()
    keeper = Keeper(job_of(small_cell(), tmp_path / "a file"))
    train(begin(keeper.job), following, HELD_OUT, 1e9, keeper.keep)
    assert keeper.not_kept == "File exists"


@pytest.mark.slow
def test_a_process_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    script = f"""
        import sys, time
        from pathlib import Path
        sys.path[:0] = [{str(Path(__file__).parents[2])!r}]
        import torch
        from attnbench.training.checkpoint import Keeper
        from attnbench.training.loop import train
        from tests.training.conftest import following, small_cell
        from tests.training.test_checkpoint import HELD_OUT, begin, job_of
        torch.set_num_threads(1)
        job = job_of(small_cell("lsh.reformer"), Path(sys.argv[1]))
        keeper = Keeper(job)
        def keep(progress):
            keeper.keep(progress)
            print(progress.updates, flush=True)
            time.sleep(0.2 if progress.updates > 4 else 0)
        train(begin(job), following, HELD_OUT, 1e9, keep)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert child.stdout is not None
    for line in child.stdout:
        if line.strip() == "5":
            break
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    job = job_of(small_cell("lsh.reformer"), tmp_path)
    started, ignored = resume(lambda: begin(job), job)
    assert ignored is None
    assert 5 <= started.updates < 12
    assert same(run(job)[0], run(job_of(job.cell, tmp_path / "whole"))[0])


def saved(folder: Path, method: str = "softmax.sdpa", lacking: int = 0, **fields: Any) -> tuple[Path, Transformer]:
    job = job_of(small_cell(method, **fields), folder)
    plan = plan_of(job.cell)
    task = task_of(plan, job.cell.problem.N)
    model = Transformer(job.cell, task.alphabet, seed=5)
    progress = Progress.begin(model, 5, task.name)
    progress.seconds = [1.0] * (plan.updates - lacking)
    return save(progress, job), model


def test_a_file_holds_q_k_and_v_of_every_layer_and_head_as_the_attentions_were_called_with_them(tmp_path: Path) -> None:
    file, model = saved(tmp_path)
    out = tmp_path / "recorded.safetensors"
    shapes = record_file(file, out, sequences=4)
    found = load_file(out)
    assert shapes == dict.fromkeys(("q", "k", "v"), (4, 2 * 2, 16, 8))
    assert {name: tuple(x.shape) for name, x in found.items()} == shapes
    assert {x.dtype for x in found.values()} == {torch.float16}
    seen: list[tuple[torch.Tensor, ...]] = []
    for block in model.layers:
        block.attention.register_forward_pre_hook(lambda _, inputs: seen.append(inputs))
    wanted = record(model.eval(), 4)
    assert all(torch.equal(found[name], wanted[name].half()) for name in found)
    assert torch.equal(wanted["q"], torch.cat([inputs[0] for inputs in seen], dim=1))
    assert torch.equal(wanted["v"], torch.cat([inputs[2] for inputs in seen], dim=1))


def test_batches_make_no_difference_and_a_model_that_hears_is_recorded_too(tmp_path: Path) -> None:
    _, model = saved(tmp_path, dtype="float64")
    torch.testing.assert_close(record(model, 7)["k"][:3], record(model, 3)["k"])
    file, _ = saved(tmp_path, task="speech", causal=False, N=32)
    shapes = record_file(file, tmp_path / "recorded.safetensors", sequences=3)
    assert shapes == dict.fromkeys(("q", "k", "v"), (3, 2 * 2, 32, 8))


def test_one_tensor_of_queries_and_keys_is_both_and_heads_that_share_a_key_have_it_each(tmp_path: Path) -> None:
    _, model = saved(tmp_path, "lsh.reformer")
    found = record(model, 4)
    assert torch.equal(found["q"], found["k"])
    assert not torch.equal(found["q"], found["v"])
    _, model = saved(tmp_path, kv_heads=1)
    found = record(model, 4)
    assert found["k"].shape == found["q"].shape == (4, 4, 16, 8)
    assert torch.equal(found["k"][:, 0], found["k"][:, 1])


def test_half_a_training_one_on_other_data_and_what_is_no_checkpoint_are_not_recorded_from(tmp_path: Path) -> None:
    (text := tmp_path / "text").write_bytes(bytes(range(256)))
    other, _ = saved(tmp_path, task="bytes", data=str(text))
    text.write_bytes(bytes(256))
    (nothing := tmp_path / "no.safetensors").write_bytes(b"nothing")
    for file, says in (
        (saved(tmp_path, lacking=1)[0], "ended after 11 of 12 updates"),
        (other, r"on bytes of text \(40aff2e9\); what is there now is bytes of text \(5341e6b2\)"),
        (nothing, r"no.safetensors cannot be read as a trained model"),
        (checkpoint_of(tmp_path, small_cell(), 3), "cannot be read"),
    ):
        with pytest.raises(CheckpointError, match=says):
            record_file(file, tmp_path / "out.safetensors", sequences=2)
