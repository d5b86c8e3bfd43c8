"""Outcome: what came of a job. A sum type, so that every reader must face failure."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from attnbench.schema.noun import Lax, Noun, Scalar


class Status(StrEnum):
    """Why there are no numbers."""

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
        """Whether a longer sequence would surely end the same way."""
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


MASS_RECALL = "mass_recall"
"""Mean over queries: of the exact attention mass of its top keys, the share of those that the method gives any weight."""
OUTPUT_ERROR = "output_error"
"""‖o - o*‖ / ‖o*‖, o* by the exact attention."""
COSINE = "cosine"
"""Mean over queries: cosine of the angle between o and o*."""
TOP_OVERLAP = "top_overlap"
"""Mean over queries: the share of the exact top keys that are also among the top keys of the method."""
FIDELITY_SCORES = (MASS_RECALL, TOP_OVERLAP, COSINE, OUTPUT_ERROR)

ROUNDING = "rounding"
"""‖o - o*‖ / ‖o*‖ of a row, o* by the method's own definition in float64 on the same inputs; root mean square over rows."""
WORST_ROW = "worst_row"
"""The same of the row that is off the most."""
GRADIENT_ROUNDING = "gradient_rounding"
"""The same of gradients, each head of an input, and each parameter, in the place of a row."""
DRIFT = "drift"
"""The rounding of rows in the last quarter of the tokens over that in the first."""
BATCH_DIFFERENCE = "batch_difference"
"""‖o - o'‖ / ‖o'‖ of one sample alone and in its batch; 0 where they are the same bit for bit."""
STEP_DIFFERENCE = "step_difference"
"""The same of the last tokens, decoded one by one, and attended all at once."""
RUN_DIFFERENCE = "run_difference"
"""The same of one call made again, outputs and gradients; the most."""
DETERMINISTIC_COST = "deterministic_cost"
"""Time with torch's deterministic algorithms over time without."""
NUMERICS_SCORES = (
    *(ROUNDING, WORST_ROW, GRADIENT_ROUNDING, DRIFT),
    *(BATCH_DIFFERENCE, STEP_DIFFERENCE, RUN_DIFFERENCE, DETERMINISTIC_COST),
)

LOSS = "loss"
"""Cross-entropy of the held-out sequences after the last update, nats per token that is judged."""
ACCURACY = "accuracy"
"""Share of the judged tokens whose most likely value is the right one."""
BITS = "bits"
"""Loss / ln 2: bits per dimension of an image, bits per byte of a text."""
LEARNT_SCORES = (LOSS, ACCURACY, BITS)
CURVE = ("curve_update", "curve_seconds", "curve_loss")
"""Of the held-out sequences on the way: after how many updates, after how many seconds of training, which loss."""
CURVE_ACCURACY = "curve_accuracy"
DRAWN, COMPLETED, GIVEN = "drawn", "completed", "given"
"""Pixels of images, row by row, one image after the other: drawn from nothing; completed from the upper half of those that
were given; and these."""
SERVER = "server"
"""The fact that says how the process of a job came about otherwise than it should."""
STATE_SOURCE = "the method's own count of what it keeps between tokens"


class Measured(Noun):
    """Raw samples and counters; statistics are computed by the reader, never stored."""

    kind: Literal["measured"] = "measured"
    samples: dict[str, Series] = Field(default_factory=dict)
    memory: dict[str, Counter] = Field(default_factory=dict)
    facts: dict[str, Scalar | None] = Field(default_factory=dict)
    flags: tuple[str, ...] = ()


class Failed(Noun):
    """No numbers that count, and why: a status, a reason in words, and the last lines that were seen.

    `samples` and `facts` are what had been measured before it was found wrong: kept, and never ranked.
    """

    kind: Literal["failed"] = "failed"
    status: Lax[Status]
    reason: str
    detail: str = ""
    samples: dict[str, Series] = Field(default_factory=dict)
    facts: dict[str, Scalar | None] = Field(default_factory=dict)


Outcome = Annotated[Measured | Failed, Field(discriminator="kind")]
