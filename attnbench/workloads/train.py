"""The training pass: a model around the method learns a task, with time, loss and what it makes on its way."""

import torch

from attnbench.measure.loop import MIN_SAMPLES
from attnbench.measure.process_state import ProcessState, still_at_work
from attnbench.schema.cell import Cell
from attnbench.schema.errand import Job
from attnbench.schema.outcome import ACCURACY, BITS, CURVE, CURVE_ACCURACY, LOSS, Failed, Measured, Series, Status
from attnbench.schema.training import LANGUAGE
from attnbench.training.alphabet import Alphabet
from attnbench.training.checkpoint import Keeper, resume
from attnbench.training.drawing import draw_images
from attnbench.training.loop import train
from attnbench.training.progress import Progress
from attnbench.training.sequences import Sequences
from attnbench.training.tasks import TaskData, task_of
from attnbench.training.transformer import plan_of
from attnbench.workloads.holding import WrongError
from attnbench.workloads.modelled import build_model
from attnbench.workloads.proof_in_model import prove_training
from attnbench.workloads.setting import with_batch
from attnbench.workloads.timing import Facts, state_for, watched

_NATS_OF_A_BIT = 0.6931471805599453


def measure_training(job: Job) -> Measured | Failed:
    """All updates, or those that a checkpoint lacks, with proof that the attention was its method's to the end.

    Failed, with what was measured, where it was not. Raises what task, method and loop raise.
    """
    cell, before = with_batch(job.cell, job.B), state_for(job.cell)
    plan = plan_of(cell)
    task = task_of(plan, cell.problem.N)
    progress, ignored = resume(lambda: _begin(cell, task, job.seed), job)
    resumed_from, judged = progress.updates, task.held_out(plan.held_out)
    with watched(cell.device) as conditions:
        train(progress, task.batch, judged, job.limits.seconds, Keeper(job))
    changed = before.changed(ProcessState.read())
    images, notes = _images(progress, task, job.seed)
    facts: Facts = {
        **_facts(progress, task),
        "held_out": len(judged.tokens),
        "resumed_from": resumed_from,
        **({} if ignored is None else {"checkpoint_ignored": ignored}),
        **({} if job.B is None else {"B": job.B}),
        **notes,
        **conditions.facts,
    }
    try:
        if words := changed or still_at_work():
            raise WrongError(words, Status.UNFAIR)
        tokens = Sequences.on(cell.device, task.batch(cell.problem.B, torch.Generator().manual_seed(job.seed))).tokens
        facts |= prove_training(progress.model, tokens, sum(progress.seconds))
    except WrongError as error:
        return Failed(status=error.status, reason=str(error), samples=_series(progress), facts=facts)
    few = ("few_samples",) if progress.updates < MIN_SAMPLES else ()
    late = ("resumed",) if resumed_from else ()
    flags = (*few, *late, *conditions.flags(progress.seconds))
    return Measured(samples=_series(progress) | images, facts=facts, flags=flags)


def _begin(cell: Cell, task: TaskData, seed: int) -> Progress:
    return Progress.begin(build_model(cell, Alphabet.of(task), seed), seed, task.name)


def _series(progress: Progress) -> dict[str, Series]:
    """Time, scores and curves: an accuracy where there is a likeliest token, bits where all tokens are to be said."""
    curve, plan = progress.curve, progress.model.plan
    loss = curve.losses[-1]
    columns = (curve.updates, curve.seconds, curve.losses)
    found = {name: Series(unit=u, values=tuple(x)) for name, u, x in zip(CURVE, ("1", "s", "nat"), columns, strict=True)}
    found |= {"time": Series(unit="s", values=tuple(progress.seconds)), LOSS: Series(unit="nat", values=(loss,))}
    if progress.model.alphabet.levels is None:
        found[ACCURACY] = Series(unit="1", values=(curve.accuracies[-1],))
        found[CURVE_ACCURACY] = Series(unit="1", values=tuple(curve.accuracies))
    if plan.task in LANGUAGE:
        found[BITS] = Series(unit="bit", values=(loss / _NATS_OF_A_BIT,))
    return found


def _facts(progress: Progress, task: TaskData) -> Facts:
    return {
        "clock": "wall",
        "parameters": progress.model.size,
        "updates": progress.updates,
        "chance_loss": task.chance_loss,
        "chance_accuracy": task.chance_accuracy,
        "data": task.name,
        "threads": torch.get_num_threads(),
        "deterministic": progress.model.cell.device_kind == "cpu",
        **({} if task.levels is None else {"image_rows": task.rows, "image_columns": task.columns, "levels": task.levels}),
    }


def _images(progress: Progress, task: TaskData, seed: int) -> tuple[dict[str, Series], Facts]:
    """Drawn and completed, where it was asked for; a model that cannot draw has still learnt, and the facts say why not."""
    count, model = progress.model.plan.drawings, progress.model
    if not count or task.rows is None or task.columns is None:
        return {}, {}
    images = task.held_out(count).targets
    try:
        drawn = draw_images(model, images, given=task.rows // 2 * task.columns, seed=seed)
    except (ValueError, RuntimeError, NotImplementedError) as error:
        return {}, {"not_drawn": (str(error) or type(error).__name__).splitlines()[0]}
    return {name: Series(unit="level", values=pixels) for name, pixels in drawn.items()}, {}
