"""What a section of training or generating is about, in words: the task, its data, the model around the attention."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.sections import Section
from attnbench.report.text.names import one_line
from attnbench.schema.outcome import ACCURACY, BITS
from attnbench.schema.training import LANGUAGE, Task, Training
from attnbench.schema.units import three_digits

_BITS = {Task.PIXELS: "bits/dim", Task.BYTES: "bits/byte"}


def by_length(section: Section) -> list[Section]:
    """One section for each N: what is learnt at one length is not to be held against another."""
    cells = section.summaries
    return [replace(section, summaries=tuple(s for s in cells if s.cell.problem.N == N)) for N in section.lengths]


def model_of(section: Section) -> Training | None:
    """The model that the cells have in common, but for what the conditions say."""
    return next((s.cell.training for s in section.summaries if s.cell.training), None)


def task_of(section: Section) -> str:
    """`copy`, `pixels, digits`; of a file only its name."""
    model = model_of(section)
    data = (model.images or PurePath(model.data).name) if model else ""
    return ", ".join(filter(None, (model.task.value if model else "", one_line(data))))


def where(section: Section) -> str:
    """`copy, N=128, causal, float32`, of a section of one length."""
    return ", ".join((_start(section), *_conditions(section)))


def heads(sections: Sequence[Section]) -> tuple[str, list[str]]:
    """What sections of one length have in common, and of each the task, the length, and what makes it differ: `copy, N=128`."""
    conditions = [_conditions(section) for section in sections]
    common = [words for words in (conditions[0] if conditions else ()) if all(words in each for each in conditions)]
    own = [[words for words in each if words not in common] for each in conditions]
    return ", ".join(common), [", ".join((_start(s), *each)) for s, each in zip(sections, own, strict=True)]


def _start(section: Section) -> str:
    return ", ".join(filter(None, (task_of(section), *(f"N={N}" for N in section.lengths))))


def _conditions(section: Section) -> tuple[str, ...]:
    """The mask, the dtype and what else the run varies, but for the task and its data."""
    model = model_of(section)
    said = {model.task.value, model.data} if model else set()
    return (section.mask, *(words for words in section.conditions.split(", ") if words and words not in said))


def qualities(section: Section) -> dict[str, str]:
    """By metric besides the loss, what it is called: accuracy where there is a right answer, bits of pixels and bytes."""
    model = model_of(section)
    if model is None or model.task not in LANGUAGE:
        return {ACCURACY: "accuracy"}
    bits = {BITS: _BITS[model.task]}
    return bits if model.task is Task.PIXELS else {ACCURACY: "accuracy", **bits}


def training_notes(summaries: Sequence[CellSummary]) -> list[str]:
    """The stopping rule, the optimiser, the data, and what had to be resumed."""
    ways = dict.fromkeys(_way(s) for s in summaries if s.cell.training)
    data = dict.fromkeys(one_line(words) for s in summaries if (words := s.fact("data")))
    resumed = dict.fromkeys(s.cell.label for s in summaries if "resumed" in s.flags)
    return [
        *([f"Training: {'; '.join(ways)}; the same data in the same order for every method."] if ways else []),
        *([f"Data: {'; '.join(data)}."] if data else []),
        *(["Deterministic algorithms, in what is timed too."] if any(s.facts.get("deterministic") for s in summaries) else []),
        *([f"Resumed from a checkpoint, which changes no weight: {', '.join(map(one_line, resumed))}."] if resumed else []),
    ]


def _way(summary: CellSummary) -> str:
    model = summary.cell.training
    assert model is not None
    late = f", then {model.late_rate:g} from update {model.late_from:,} on" if model.late_from < model.updates else ""
    again = ", layers computed again in the backward" if model.recompute else ""
    return f"exactly {model.updates:,} updates of B={summary.B} sequences by RAdam, rate {model.rate:g}{late}{again}"


def chance_note(summaries: Sequence[CellSummary]) -> str:
    """The loss, and the accuracy, of who knows nothing; empty where it was not recorded."""
    said = dict.fromkeys(words for s in summaries if (words := _chance(s)))
    return f"Chance: {'; '.join(said)}." if said else ""


def _chance(summary: CellSummary) -> str:
    # of pixels, where no answer is right or wrong, there is no accuracy
    loss, accuracy = chance(summary, "loss"), chance(summary, "accuracy") if ACCURACY in summary.scores else None
    words = [] if loss is None else [f"loss {three_digits(loss)}"]
    return ", ".join([*words, *([] if accuracy is None else [f"accuracy {three_digits(100 * accuracy)}%"])])


def chance(summary: CellSummary, of: str) -> float | None:
    """`loss` or `accuracy` of who knows nothing, as it was recorded."""
    value = summary.facts.get(f"chance_{of}")
    return float(value) if isinstance(value, int | float) else None
