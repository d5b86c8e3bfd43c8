"""Training: the model around an attention, what it learns, and for how long."""

from enum import StrEnum

from pydantic import Field

from attnbench.schema.noun import Lax, Noun
from attnbench.schema.problem import DType, Problem


class Task(StrEnum):
    """A task that a model can learn; by default no task needs a download."""

    COPY = "copy"
    """Repeat the first half of a sequence in the second."""
    RECALL = "recall"
    """Multi-query associative recall: say the value of each key that comes again; no key is ever given another value."""
    INDUCTION = "induction"
    """Say what followed the last token the first time it came."""
    LISTOPS = "listops"
    """Say the value of a nested expression over digits."""
    BYTES = "bytes"
    """Predict the next byte of a text."""
    PIXELS = "pixels"
    """Predict the next pixel of an image, by a mixture of logistics."""
    SPEECH = "speech"
    """Write down what is heard in the frames of a sound, by CTC."""


LANGUAGE = frozenset({Task.BYTES, Task.PIXELS})
"""The tasks in which every token is predicted, and which have no right answer."""
PIXELS = {"digits": (8, 8, 17), "mnist": (28, 28, 256), "cifar10": (32, 96, 256), "imagenet64": (64, 192, 256)}
"""The rows, columns (times colours) and levels of an image, by the name of the data."""
MOST_SPOKEN = 42
"""The symbols of made-up speech: pairs of one of 6 low tones and one of 7 high ones, which are three of 40 channels apart."""
_LEAST = {Task.COPY: 4, Task.INDUCTION: 4, Task.LISTOPS: 8, Task.SPEECH: 24}


class Training(Noun):
    """A Transformer of width H D around the attention of the cell; an update takes B sequences of N tokens."""

    task: Lax[Task] = Field(description="copy, recall, induction, listops, bytes, pixels or speech")
    data: str = Field(
        default="",
        description="bytes: a file or folder (default: Python's own sources); pixels: digits, mnist, cifar10, or a folder; "
        "speech: a folder of sounds and texts (default: made up)",
    )
    symbols: int = Field(default=10, ge=2, le=4096, description="different tokens of copy, recall, induction and speech")
    pairs: int = Field(default=8, ge=1, description="keys with a value, in recall")
    shortest: int = Field(default=0, ge=0, description="symbols of the shortest word of copy; 0: all have the same length")
    layers: int = Field(default=4, ge=1, description="of the Transformer")
    softmax_every: int = Field(default=0, ge=0, description="every n-th layer has exact softmax attention instead; 0: none")
    feedforward: int = Field(default=4, ge=1, description="hidden width of the feed-forward part, in widths of the model")
    mixtures: int = Field(default=10, ge=1, description="logistics of the mixture, for pixels")
    updates: int = Field(default=3000, ge=1, description="the one stopping rule")
    rate: float = Field(default=1e-3, gt=0, description="of RAdam")
    late_rate: float = Field(default=1e-4, gt=0, description="of RAdam, from `late_from` updates on, where less than `rate`")
    late_from: int = Field(default=3000, ge=0, description="the update from which on `late_rate` holds")
    evaluations: int = Field(default=20, ge=1, description="points of a curve: the held-out sequences are judged so often")
    held_out: int = Field(default=256, ge=1, description="sequences that are never trained on")
    recompute: bool = Field(default=False, description="gradient checkpointing: a layer is computed again in the backward")
    drawings: int = Field(default=0, ge=0, description="images that are drawn, and as many completed, once it is trained")

    def rate_at(self, update: int) -> float:
        """Return the step size of an update, counted from 0."""
        return min(self.rate, self.late_rate) if update >= self.late_from else self.rate

    @property
    def images(self) -> str:
        """The name of the images; empty for other tasks. A path is that of a folder with imagenet64."""
        name = "imagenet64" if "/" in self.data else self.data or "digits"
        return name if self.task is Task.PIXELS else ""

    def why_not(self, problem: Problem) -> str | None:
        """Say why no model can be trained on this problem, and what would be right; None where one can."""
        task, N, D = self.task, problem.N, problem.D
        least = 2 * self.pairs + 2 if task is Task.RECALL else _LEAST.get(task, 2)
        found = [
            (problem.causal and task is Task.SPEECH, "task speech hears an utterance as a whole; set causal: false"),
            (not problem.causal and task not in {Task.LISTOPS, Task.SPEECH}, f"task {task} is causal; set causal: true"),
            (problem.M != D, f"a model's heads are as wide in values as in keys; set M to D={D}"),
            (problem.padding > 0, "training is without padding"),
            (problem.dtype is DType.FLOAT16, "float16 would need its losses scaled; train in bfloat16 or float32"),
            (
                bool(self.data) and task not in {*LANGUAGE, Task.SPEECH},
                f"task {task} makes its own data; leave out data: {self.data}",
            ),
        ]
        if task is Task.PIXELS:
            rows, columns, _ = PIXELS.get(self.images, (0, 0, 0))
            found += [
                (not rows, f"no images are called {self.images!r}; write one of {', '.join(PIXELS)}, or PATH/imagenet64"),
                (rows * columns != N, f"an image of {self.images} has {rows * columns} pixels; set N to that, not {N}"),
            ]
        if task is Task.RECALL:
            too_many = f"half of symbols={self.symbols} are keys; pairs={self.pairs} are more than that"
            found.append((self.pairs > self.symbols // 2, too_many))
        if task is Task.SPEECH and not self.data:
            too_many = f"made-up speech has at most {MOST_SPOKEN} symbols; symbols={self.symbols}"
            found.append((self.symbols > MOST_SPOKEN, too_many))
        found.append((least > N, f"task {task} needs N of at least {least}; it is {N}"))
        if task is Task.COPY:
            longest = N // 2 - 1
            too_long = f"a word of copy has at most N / 2 - 1 = {longest} symbols; shortest={self.shortest}"
            found.append((self.shortest > longest, too_long))
            found.append((N % 2 > 0, f"copy repeats the first half of a sequence; N={N} must be even"))
        return next((why for wrong, why in found if wrong), None)
