"""Outcome: the result of a job, either Measured or Failed, so that every reader has to handle failure."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from attnbench.schema.noun import Facts, Lax, Noun


class Status(StrEnum):
    """The reason why a job has no valid numbers."""

    UNSUPPORTED = "unsupported"
    MISSING = "missing"
    OOM_DEVICE = "oom_device"
    OOM_HOST = "oom_host"
    TIMEOUT = "timeout"
    CRASHED = "crashed"
    ERROR = "error"
    INCORRECT = "incorrect"
    IMPOSSIBLE = "impossible"
    UNFAIR = "unfair"
    BUDGET = "budget"
    INTERRUPTED = "interrupted"

    @property
    def monotonic(self) -> bool:
        """Say whether a longer sequence would surely fail in the same way."""
        return self in {Status.OOM_DEVICE, Status.OOM_HOST, Status.BUDGET, Status.TIMEOUT}


class Series(Noun):
    """Raw samples of one metric, in the order they were taken."""

    unit: str
    values: tuple[float, ...]


class Counter(Noun):
    """One memory counter. Where it could not be read, `bytes` is None and `reason` says why; never 0."""

    bytes: int | None
    source: str
    reason: str | None = None


FIRST_CALL = "first_call"
"""Seconds of the first call in a fresh process, of the whole batch."""
ATTENTION_SHARE = "attention_share"
"""The share of a whole model's call that its layers spend on q, k and v."""
SELECTION_SHARE = "selection_share"
"""The share of a forward that a method spends on its discrete choices."""
ENERGY = "energy"
"""Joules of one call of the whole batch, over the timed samples and what lies between them."""

MASS_RECALL = "mass_recall"
"""How much of the exact weight on a query's top keys lies on keys to which the method gives any weight; mean over queries."""
OUTPUT_ERROR = "output_error"
"""‖o - o*‖ / ‖o*‖, with o* by exact attention."""
COSINE = "cosine"
"""The cosine of the angle between o and o*, mean over queries."""
TOP_OVERLAP = "top_overlap"
"""The share of the exact top keys that are also among the top keys of the method, mean over queries."""
FIDELITY_SCORES = (MASS_RECALL, TOP_OVERLAP, COSINE, OUTPUT_ERROR)

ROUNDING = "rounding"
"""‖o - o*‖ / ‖o*‖ of a row, with o* by the method's own definition in float64 on the same inputs; RMS over rows."""
WORST_ROW = "worst_row"
"""The rounding of the row with the largest one."""
GRADIENT_ROUNDING = "gradient_rounding"
"""The rounding of gradients; each head of an input and each parameter counts as one row."""
DRIFT = "drift"
"""The rounding of rows in the last quarter of the tokens, divided by that in the first quarter."""
BATCH_DIFFERENCE = "batch_difference"
"""‖o - o'‖ / ‖o'‖ between one sample alone and in its batch; 0 where they are the same bit for bit."""
STEP_DIFFERENCE = "step_difference"
"""The same difference between the last tokens decoded one by one and attended all at once."""
RUN_DIFFERENCE = "run_difference"
"""The same difference between a call and its repetitions: the largest of all outputs and gradients."""
DETERMINISTIC_COST = "deterministic_cost"
"""The time with torch's deterministic algorithms, divided by the time without."""
NUMERICS_SCORES = (
    *(ROUNDING, WORST_ROW, GRADIENT_ROUNDING, DRIFT),
    *(BATCH_DIFFERENCE, STEP_DIFFERENCE, RUN_DIFFERENCE, DETERMINISTIC_COST),
)

LOSS = "loss"
"""The cross-entropy of the held-out sequences after the last update, in nats per judged token."""
ACCURACY = "accuracy"
"""The share of the judged tokens whose most likely value is the right one."""
ERROR_RATE = "error_rate"
"""Symbols that must be inserted, left out or replaced to turn what was written down into what was said, over those said."""
BITS = "bits"
"""The loss divided by ln 2: bits per dimension of an image, bits per byte of a text."""
PERPLEXITY = "perplexity"
"""exp of the mean cross-entropy of a text that was held out, per token."""
DIVERGENCE = "divergence"
"""KL(p ‖ p') in nats, mean over tokens, of what a model says with its own attention and with the method."""
MQAR = "mqar"
"""Multi-query associative recall: the share of values that a model says after their keys come again."""
NEEDLE = "needle"
"""The share of the tokens of a needle that a model says when its first half comes again after a text."""
QUALITY_SCORES = (PERPLEXITY, DIVERGENCE, MQAR, NEEDLE)
CURVE = ("curve_update", "curve_seconds", "curve_loss")
"""The points at which held-out sequences were judged: after how many updates and seconds of training, and with which loss."""
CURVE_ACCURACY, CURVE_ERROR_RATE = "curve_accuracy", "curve_error_rate"
DRAWN, COMPLETED, GIVEN = "drawn", "completed", "given"
"""Pixels of images, row by row, one image after the other: drawn from nothing; completed from the upper half of given images;
and the given images."""
SERVER = "server"
"""The name of the fact that says what went wrong when the process of a job was started."""
STATE_SOURCE = "the method's own count of what it keeps between tokens"


class Measured(Noun):
    """Raw samples and counters. Statistics are not stored: the reader computes them."""

    kind: Literal["measured"] = "measured"
    samples: dict[str, Series] = Field(default_factory=dict)
    memory: dict[str, Counter] = Field(default_factory=dict)
    facts: Facts = Field(default_factory=dict)
    flags: tuple[str, ...] = ()


class Failed(Noun):
    """A job without valid numbers: a status, a reason in words, and the last lines of output.

    `samples` and `facts` were measured before the job was found wrong: they are kept, but never ranked.
    """

    kind: Literal["failed"] = "failed"
    status: Lax[Status]
    reason: str
    detail: str = ""
    samples: dict[str, Series] = Field(default_factory=dict)
    facts: Facts = Field(default_factory=dict)


Outcome = Annotated[Measured | Failed, Field(discriminator="kind")]
