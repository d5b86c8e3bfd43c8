"""Errands: what a child process is asked to do, and what it answers, both sent as JSON.

A Job is answered by an Outcome, an Inquiry by a Description, a Survey by Surroundings; each of them may be answered by Failed.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from attnbench.schema.cell import Cell, Workload
from attnbench.schema.cost import Cost
from attnbench.schema.noun import Facts, Lax, Noun
from attnbench.schema.outcome import Failed, Measured


class Pass(StrEnum):
    """The kind of measurement of one process. Time and memory are separate passes, for polling and profiling disturb timing.

    A fit asks only whether a batch of that size can be run at all. Fidelity needs no clock, but dense weights; numerics need
    the definition in float64. The training pass times its own updates. A trace shows which kernels a call runs, and is kept in
    no record.
    """

    CHECK = "check"
    FIT = "fit"
    TIME = "time"
    MEMORY = "memory"
    FIDELITY = "fidelity"
    NUMERICS = "numerics"
    TRAIN = "train"
    QUALITY = "quality"
    TRACE = "trace"


_MAIN = {
    Workload.FIDELITY: Pass.FIDELITY,
    Workload.NUMERICS: Pass.NUMERICS,
    Workload.TRAIN: Pass.TRAIN,
    Workload.MODEL_QUALITY: Pass.QUALITY,
}


def main_pass(cell: Cell) -> Pass:
    """Return the pass whose samples a cell is measured for. Where it fails, the cell has failed."""
    return _MAIN.get(cell.workload, Pass.TIME)


TIMELINE = "trace.json"
"""The file, in the folder of its job, that a trace writes."""
SETS_SHARE = 0.05
"""The share of a cell's memory that further sets of inputs may take while it is timed, in addition to that memory."""
FIT_SHARE = 0.9
"""The share of a cell's memory that a batch may take while the largest one is searched for."""


class Roof(Noun):
    """The measured speed of a large matrix product, a large copy and a copy in cache (bytes read plus written)."""

    flops_per_second: float = Field(gt=0, allow_inf_nan=False)
    bytes_per_second: float = Field(gt=0, allow_inf_nan=False)
    cached_bytes_per_second: float | None = Field(default=None, gt=0, allow_inf_nan=False)

    def floor(self, flops: float, moved: float) -> float:
        """Return the least seconds that a call with this work can take if it moves its data from and to memory."""
        return max(flops / self.flops_per_second, moved / self.bytes_per_second)

    def fastest(self, flops: float, moved: float) -> float:
        """Return the least seconds that a call with this work can take, even if all its data is in cache."""
        return max(flops / self.flops_per_second, moved / max(self.bytes_per_second, self.cached_bytes_per_second or 0.0))


class Limits(Noun):
    """The time and the memory that one job may use."""

    seconds: float = Field(default=15.0, gt=0, description="warm-up and samples together end by then")
    timeout: float = Field(default=120.0, gt=0, description="the whole process group is killed then")
    flops: float = Field(
        default=0.0, ge=0, description="the least that a call executes: by its method, or as counted in its check"
    )
    roof: Roof | None = Field(default=None, description="under which no call can be faster than its FLOPs and bytes allow")
    memory_bytes: int | None = Field(default=None, description="host memory beyond the interpreter's own; CPU cells only")
    first_call: float | None = Field(default=None, description="a first call above this many seconds is `budget`")


class Job(Noun):
    """One replicate of one pass over one cell."""

    kind: Literal["job"] = "job"
    cell: Cell
    phase: Lax[Pass] = Pass.TIME
    replicate: int = 0
    attempt: int = 0
    excused: int = Field(default=0, description="how many of the first attempts say nothing against the method")
    seed: int = 0
    B: int | None = Field(default=None, ge=1, description="batch in place of the problem's, where the largest is searched for")
    warmup: int | None = Field(default=None, description="calls; None = until steady")
    tuned_at: Cell | None = Field(
        default=None, description="at whose shape a method that tunes itself is called before its check, which is smaller"
    )
    folder: str | None = Field(default=None, description="where checkpoints are kept; never part of a record")
    limits: Limits = Limits()

    @property
    def sized(self) -> Cell:
        """The cell as it is measured, with the batch that was found for it, if one was searched for."""
        return (self.cell if self.B is None else self.cell.reshaped(B=self.B)).laid


class Inquiry(Noun):
    """A question to one method: what it is, which of these cells it can run, and what they cost."""

    kind: Literal["inquiry"] = "inquiry"
    method: str
    cells: tuple[Cell, ...] = ()


class Survey(Noun):
    """A question to the machine: which device it has, and how fast that multiplies and copies."""

    kind: Literal["survey"] = "survey"
    device: str = "auto"
    ceilings: tuple[str, ...] = ()
    """The names of the roofs to measure: `Cell.ceiling` of all cells, each once."""


class Prospect(Noun):
    """The answer of a method about one cell: why it cannot run, or its cost and the cells on which to check the method."""

    why_not: str | None = None
    cost: Cost | None = None
    checks: tuple[Cell, ...] = ()


class Description(Noun):
    """The answer of a method about itself."""

    kind: Literal["description"] = "description"
    method: str
    paper: str
    tier: str
    causality: str
    is_softmax: bool | None = Field(default=None, description="it computes softmax attention itself; null where nobody asked")
    summary: str
    version: str = Field(description="distribution, version and digest of the source that will run")
    parameters: tuple[str, ...] = ()
    missing: tuple[str, ...] = Field(default=(), description="requirements that are not installed")
    tunes: bool = Field(default=False, description="its kernels choose their launches at their first call")
    prospects: tuple[Prospect, ...] = ()


class Surroundings(Noun):
    """The device that `auto` stands for, facts about it, and its measured roofs by the name that `Cell.ceiling` gives."""

    kind: Literal["surroundings"] = "surroundings"
    device: str
    facts: Facts
    memory_bytes: int
    roof: dict[str, Roof]


Errand = Job | Inquiry | Survey
Answer = Measured | Failed | Description | Surroundings
ERRAND: TypeAdapter[Errand] = TypeAdapter(Annotated[Errand, Field(discriminator="kind")])
ANSWER: TypeAdapter[Answer] = TypeAdapter(Annotated[Answer, Field(discriminator="kind")])
