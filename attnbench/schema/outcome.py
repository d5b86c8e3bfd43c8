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


FIRST_CALL, ATTENTION_SHARE, SELECTION_SHARE, ENERGY = "first_call", "attention_share", "selection_share", "energy"
"""Of a call of the whole batch, as it is recorded: seconds, two shares of the time, joules."""
# the scores of each pass; analyze/quantities.py says what each is
FIDELITY_SCORES = MASS_RECALL, TOP_OVERLAP, COSINE, OUTPUT_ERROR = "mass_recall", "top_overlap", "cosine", "output_error"
_OFF = ROUNDING, WORST_ROW, GRADIENT_ROUNDING, DRIFT = "rounding", "worst_row", "gradient_rounding", "drift"
_APART = BATCH_DIFFERENCE, STEP_DIFFERENCE, RUN_DIFFERENCE = "batch_difference", "step_difference", "run_difference"
DETERMINISTIC_COST = "deterministic_cost"
NUMERICS_SCORES = (*_OFF, *_APART, DETERMINISTIC_COST)
LOSS, ACCURACY, ERROR_RATE, BITS = "loss", "accuracy", "error_rate", "bits"
QUALITY_SCORES = PERPLEXITY, DIVERGENCE, MQAR, NEEDLE = "perplexity", "divergence", "mqar", "needle"
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
