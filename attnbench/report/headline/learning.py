"""What a section of training amounts to, in words: who reaches the loss of the others' baseline, and who does not."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attnbench.analyze.headline_learning import Learning, Rival, Standing
from attnbench.analyze.learnt import SEEDS
from attnbench.analyze.sections import Section
from attnbench.report.questions.learning.words import task_of
from attnbench.report.text.names import shorten
from attnbench.schema.training import Task, Training

Names = Mapping[str, str]
"""By label, how a method is called."""
_FEW = 3
"""Methods in a clause; of more the others are counted."""
_CONDITIONS = 80
"""Letters of them, at most."""
_UNITS = {Task.PIXELS: "bits per dimension", Task.BYTES: "bits per byte"}


def learning_words(found: Learning, names: Names) -> str:
    """`a reaches b's loss (0.01 [0.00, 0.02] nats apart after 1,500 updates, 3 seeds); c stays above it (0.5 [0.4, 0.6])`."""
    model = found.base.cell.training
    told = [(each, [rival for rival in found.rivals if rival.standing is each]) for each in Standing]
    first, *others = [_Clause(standing, rivals, names, model) for standing, rivals in told if rivals]
    updates = f"{model.updates:,} updates, " if model else ""
    about = f" {_unit(model)} apart after {updates}{_seeds(found.seeds)}"
    base = f"{names[found.base.cell.label]}'s loss"
    return "; ".join([first.words(base, about), *(clause.words("it", "") for clause in others)])


def learning_place(section: Section, found: Learning) -> str:
    """`copy, N = 128, causal, float32`: what was learnt, and under which conditions."""
    model = found.base.cell.training
    # where several tasks were learnt the conditions name them too
    said = {model.task.value, model.data} if model else set()
    conditions = [words for words in section.conditions.split(", ") if words not in said]
    task = shorten(task_of(section), _CONDITIONS) or section.workload.value
    return ", ".join([task, f"N = {found.N:,}", section.mask, _brief(conditions)])


def _brief(conditions: Sequence[str]) -> str:
    return shorten(", ".join(conditions), _CONDITIONS)


@dataclass(frozen=True)
class _Clause:
    """On all methods that stand alike beside the baseline; at least one."""

    standing: Standing
    rivals: Sequence[Rival]
    names: Names
    model: Training | None

    def words(self, base: str, about: str) -> str:
        methods = _listed([self.names[rival.label] for rival in self.rivals])
        s, es = ("", "") if len(self.rivals) > 1 else ("s", "es")
        told = {
            Standing.BELOW: f"{methods} end{s} below {base}",
            Standing.REACHES: f"{methods} reach{es} {base}",
            Standing.ABOVE: f"{methods} stay{s} above {base}",
            Standing.UNTOLD: f"cannot tell whether {methods} reach{es} {base}",
        }
        amounts = _listed([self._amount(rival) for rival in self.rivals], counted=False)
        return f"{told[self.standing]} ({amounts}{about})"

    def _amount(self, rival: Rival) -> str:
        """`0.01 [0.00, 0.02]`; without an interval where there are too few seeds."""
        scale, interval = _scale(self.model), rival.apart.interval
        ends = f" [{scale * interval.low:z.2f}, {scale * interval.high:z.2f}]" if interval else ""
        return f"{scale * rival.apart.value:z.2f}{ends}"


def _scale(model: Training | None) -> float:
    """What nats are multiplied by."""
    return 1 / math.log(2) if model is not None and model.task in _UNITS else 1.0


def _unit(model: Training | None) -> str:
    return _UNITS.get(model.task, "nats") if model is not None else "nats"


def _seeds(count: int) -> str:
    few = f", where {SEEDS} are the fewest that tell" if count < SEEDS else ""
    return f"{count} seed{'' if count == 1 else 's'}{few}"


def _listed(words: Sequence[str], *, counted: bool = True) -> str:
    """`a, b and c`, or of more `a, b, c and 9 others`; of amounts only those of the first."""
    shown, more = list(words[:_FEW]), len(words) - _FEW
    if more > 0:
        others = f" and {more} other{'s' if more > 1 else ''}" if counted else ", …"
        return f"{', '.join(shown)}{others}"
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))
