"""The subject of a section of training or generating, in words: the task, its data, the model around the attention."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath

from attnbench.analyze.cells import LOSSES
from attnbench.analyze.sections import Section
from attnbench.report.text.names import one_line
from attnbench.schema.outcome import ACCURACY, BITS, CURVE_ACCURACY, CURVE_ERROR_RATE, ERROR_RATE
from attnbench.schema.training import LANGUAGE, Task, Training

CURVES = {
    "loss": (LOSSES, "held-out loss, nats"),
    "accuracy": (CURVE_ACCURACY, "held-out accuracy"),
    "error_rate": (CURVE_ERROR_RATE, "held-out error rate"),
}
"""What a training tells on its way: the series that it is recorded as, and what readers call it."""
_BITS = {Task.PIXELS: "bits/dim", Task.BYTES: "bits/byte"}


def by_length(section: Section) -> list[Section]:
    """Return one section for each N: what is learnt at one length is not to be held against another."""
    cells = section.summaries
    return [replace(section, summaries=tuple(s for s in cells if s.cell.problem.N == N)) for N in section.lengths]


def model_of(section: Section) -> Training | None:
    """Return the model that the cells have in common, but for what the conditions say."""
    return next((s.cell.training for s in section.summaries if s.cell.training), None)


def task_of(section: Section) -> str:
    """`copy`, `pixels, digits`; of a file only its name."""
    model = model_of(section)
    return ", ".join(filter(None, (model.task.value, one_line(model.images or PurePath(model.data).name)))) if model else ""


def where(section: Section) -> str:
    """`copy, N=128, causal, float32`, of a section of one length."""
    return ", ".join((_start(section), *_conditions(section)))


def heads(sections: Sequence[Section]) -> tuple[str, list[str]]:
    """Say what sections of one length have in common, and of each what makes it differ: `copy, N=128, layers=2`."""
    conditions = [_conditions(section) for section in sections]
    common = [words for words in conditions[0] if all(words in each for each in conditions)]
    own = [[words for words in each if words not in common] for each in conditions]
    return ", ".join(common), [", ".join((_start(s), *each)) for s, each in zip(sections, own, strict=True)]


def _start(section: Section) -> str:
    return ", ".join(filter(None, (task_of(section), *(f"N={N}" for N in section.lengths))))


def _conditions(section: Section) -> tuple[str, ...]:
    """Name the mask, the dtype and what else the run varies, but for the task and its data."""
    model = model_of(section)
    said = {model.task.value, model.data} if model else set()
    return (section.mask, *(words for words in section.conditions.split(", ") if words and words not in said))


def qualities(section: Section) -> dict[str, str]:
    """Return the metrics besides the loss and their names: bits of pixels and bytes, errors of speech, accuracy of the rest."""
    model = model_of(section)
    if model is not None and model.task is Task.SPEECH:
        return {ERROR_RATE: "error rate"}
    if model is None or model.task not in LANGUAGE:
        return {ACCURACY: "accuracy"}
    bits = {BITS: _BITS[model.task]}
    return bits if model.task is Task.PIXELS else {ACCURACY: "accuracy", **bits}
