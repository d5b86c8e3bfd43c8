"""The training pass: a model around the method learns a task, with the time, the loss and the images that it draws."""

import math
from dataclasses import replace

import torch

from attnbench.measure.loop import MIN_SAMPLES
from attnbench.measure.process_state import ProcessState, busy_cores, children, still_at_work
from attnbench.schema import outcome
from attnbench.schema.errand import Job
from attnbench.schema.noun import Facts
from attnbench.schema.outcome import Failed, Measured, Series, Status
from attnbench.schema.training import LANGUAGE
from attnbench.training.checkpoint import Keeper, resume
from attnbench.training.generation import draw_images
from attnbench.training.loop import Progress, train
from attnbench.training.tasks import task_of
from attnbench.training.transformer import plan_of
from attnbench.workloads.holding import WrongError
from attnbench.workloads.prepare import build_model
from attnbench.workloads.proof_in_model import prove_training
from attnbench.workloads.timing import state_for, watched


def measure_training(job: Job) -> Measured | Failed:
    """Make all updates, or those that a checkpoint lacks, with proof that the attention was its method's to the end.

    Returns Failed, with what was measured, where it was not. Raises what task, method and loop raise.
    """
    cell, before, known = job.sized, state_for(job.cell), children()
    plan = plan_of(cell)
    task = task_of(plan, cell.problem.N)

    def begin() -> Progress:
        return Progress.begin(build_model(cell, task.alphabet, job.seed), job.seed, task.name)

    progress, ignored = resume(begin, job)
    resumed_from, judged, keeper = progress.updates, task.held_out(plan.held_out), Keeper(job)
    repeated = cell.device_kind == "cpu"
    within, changed = replace(before, deterministic=before.deterministic or repeated), ""

    def look(progress: Progress) -> None:
        nonlocal changed
        # compared after every update, so that a change that is undone in time is seen too
        changed = changed or within.changed(ProcessState.read())
        if not changed:
            keeper.now_and_then(progress)

    busy = busy_cores()
    with watched(cell.device) as conditions:
        train(progress, task.batch, judged, job.limits.seconds, look)
    too_much = busy(before.threads) if cell.device_kind == "cpu" else ""
    changed = changed or before.changed(ProcessState.read()) or too_much
    images: dict[str, Series] = {}
    not_drawn = ""
    if plan.drawings and task.rows is not None and task.columns is not None:
        try:
            half = task.rows // 2 * task.columns
            drawn = draw_images(progress.model, task.held_out(plan.drawings).targets, given=half, seed=job.seed)
            images = {name: Series(unit="level", values=pixels) for name, pixels in drawn.items()}
        except (ValueError, RuntimeError, NotImplementedError) as error:
            # a model that cannot draw has learnt all the same
            not_drawn = (str(error) or type(error).__name__).splitlines()[0]
    guessed, levels = task.chance.accuracy, task.alphabet.levels
    facts: Facts = {
        "clock": "wall",
        "parameters": progress.model.size,
        "updates": progress.updates,
        "chance_loss": task.chance.loss,
        **({"chance_accuracy": guessed} if task.alphabet.channels is None else {"chance_error_rate": 1 - guessed}),
        "data": task.name,
        "threads": torch.get_num_threads(),
        "deterministic": repeated,
        **({} if levels is None else {"image_rows": task.rows, "image_columns": task.columns, "levels": levels}),
        "held_out": len(judged.tokens),
        "resumed_from": resumed_from,
        **({} if ignored is None else {"checkpoint_ignored": ignored}),
        **({} if job.B is None else {"B": job.B}),
        **({"not_drawn": not_drawn} if not_drawn else {}),
        **conditions.facts,
    }
    try:
        if words := changed or still_at_work(known):
            raise WrongError(words, Status.UNFAIR)
        tokens = task.batch(cell.problem.B, torch.Generator().manual_seed(job.seed)).tokens.to(cell.device)
        facts |= prove_training(progress.model, tokens, sum(progress.seconds))
    except WrongError as error:
        keeper.forget()
        return Failed(status=error.status, reason=str(error), samples=_series(progress), facts=facts)
    keeper.keep(progress)
    if keeper.not_kept:
        facts |= {"checkpoint_not_kept": keeper.not_kept}
    few = ("few_samples",) if progress.updates < MIN_SAMPLES else ()
    late = ("resumed",) if resumed_from else ()
    flags = (*few, *late, *conditions.flags(progress.seconds))
    return Measured(samples=_series(progress) | images, facts=facts, flags=flags)


def _series(progress: Progress) -> dict[str, Series]:
    """Return time, scores and curves: of tokens accuracy, of speech the error rate, bits where all tokens are to be said."""
    curve, plan, alphabet = progress.curve, progress.model.plan, progress.model.alphabet
    loss = curve.losses[-1]
    columns, units = (curve.updates, curve.seconds, curve.losses), ("1", "s", "nat")
    found = {name: Series(unit=u, values=tuple(x)) for name, u, x in zip(outcome.CURVE, units, columns, strict=True)}
    found |= {"time": Series(unit="s", values=tuple(progress.seconds)), outcome.LOSS: Series(unit="nat", values=(loss,))}
    if alphabet.levels is None:
        score, over_time = outcome.ACCURACY, outcome.CURVE_ACCURACY
        if alphabet.channels is not None:
            score, over_time = outcome.ERROR_RATE, outcome.CURVE_ERROR_RATE
        found[score] = Series(unit="1", values=(curve.scores[-1],))
        found[over_time] = Series(unit="1", values=tuple(curve.scores))
    if plan.task in LANGUAGE:
        found[outcome.BITS] = Series(unit="bit", values=(loss / math.log(2),))
    return found
