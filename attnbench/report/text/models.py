"""The models around an attention in words: their shape, how they were trained, and what chance alone would give."""

from collections.abc import Sequence

from attnbench.analyze.cells import CellSummary
from attnbench.report.text.names import one_line
from attnbench.schema.cell import Workload
from attnbench.schema.outcome import ACCURACY, ERROR_RATE
from attnbench.schema.training import Training
from attnbench.schema.units import three_digits


def model_notes(summaries: Sequence[CellSummary]) -> list[str]:
    """Return all lines on the models of these cells: how they were trained, on what, and what who knows nothing would get."""
    ways, chances = dict[str, None](), dict[str, None]()
    trained = [s for s in summaries if s.cell.workload is Workload.TRAIN]
    for summary in trained:
        if model := summary.cell.training:
            last = model.rate_at(model.updates - 1)
            late = f", then {last:g} from update {model.late_from:,} on" if last != model.rate else ""
            again = ", layers computed again in the backward" if model.recompute else ""
            rate = f"rate {model.rate:g}{late}{again}"
            ways[f"exactly {model.updates:,} updates of B={summary.B} sequences by RAdam, {rate}"] = None
        loss = chance(summary, "loss")
        words = [] if loss is None else [f"loss {three_digits(loss)}"]
        # of pixels, where no answer is right or wrong, there is neither
        for score, name in {ACCURACY: "accuracy", ERROR_RATE: "error rate"}.items():
            guessed = chance(summary, score) if score in summary.scores else None
            words += [] if guessed is None else [f"{name} {three_digits(100 * guessed)}%"]
        chances |= {", ".join(words): None} if words else {}
    data = dict.fromkeys(one_line(said) for s in trained if (said := s.fact("data")))
    resumed = dict.fromkeys(one_line(s.cell.label) for s in trained if "resumed" in s.flags)
    lines = {
        model_note(summaries): True,
        f"Training: {'; '.join(ways)}; the same data in the same order for every method.": ways,
        f"Data: {'; '.join(data)}.": data,
        "Deterministic algorithms, in what is timed too.": any(s.facts.get("deterministic") for s in trained),
        f"Resumed from a checkpoint, which changes no weight: {', '.join(resumed)}.": resumed,
        f"Chance: {'; '.join(chances)}.": chances,
    }
    return [line for line, holds in lines.items() if line and holds]


def model_note(summaries: Sequence[CellSummary]) -> str:
    """Describe the model around the attention; empty where there is none."""
    models = dict[str, None]()
    for cell in (summary.cell for summary in summaries):
        if cell.training:
            p = cell.problem
            size = f"H={p.H}, D={p.D} (width {p.H * p.D}), feed-forward {cell.training.feedforward}×"
            models[f"a pre-norm Transformer of {layers_of(cell.training)}, {size}"] = None
        if model := cell.model:
            weights = f"the weights of {model.weights}" if model.weights else "random weights"
            own = f", whose every {model.own_every}. layer keeps its own attention" if model.own_every else ""
            models[f"{model.config} of transformers with {weights}{own}"] = None
    return f"Model: {'; '.join(models)}, around the attention of each method." if models else ""


def layers_of(training: Training) -> str:
    """Say how many layers a model has, and how many of them have softmax attention in a hybrid."""
    layers = f"{training.layers} layer{'s' if training.layers > 1 else ''}"
    return f"{layers}, one in {training.softmax_every} with softmax attention" if training.softmax_every else layers


def chance(summary: CellSummary, of: str) -> float | None:
    """Return the `loss`, `accuracy` or `error_rate` of who knows nothing, as it was recorded."""
    value = summary.facts.get(f"chance_{of}")
    return float(value) if isinstance(value, int | float) else None
