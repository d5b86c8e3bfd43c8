"""Errands: the objects that go down to a child process; their answers come back up as JSON.

Job -> Outcome. Inquiry -> Description. Survey -> Surroundings. Any of them may come back as Failed.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from attnbench.schema.cell import Cell, Workload
from attnbench.schema.cost import Cost
from attnbench.schema.noun import Lax, Noun, Scalar
from attnbench.schema.outcome import Failed, Measured


class Pass(StrEnum):
    """Correctness, time and memory are separate: polling disturbs timing, and profiling disturbs both.

    A fit asks only whether a batch of that size can be run at all. Fidelity needs no clock, and dense weights; numerics need
    the definition in float64. Training is timed on its way.
    """

    CHECK = "check"
    FIT = "fit"
    TIME = "time"
    MEMORY = "memory"
    FIDELITY = "fidelity"
    NUMERICS = "numerics"
    TRAIN = "train"


_MAIN = {Workload.FIDELITY: Pass.FIDELITY, Workload.NUMERICS: Pass.NUMERICS, Workload.TRAIN: Pass.TRAIN}


def main_pass(cell: Cell) -> Pass:
    """The pass whose samples a cell is measured for, and whose failure is the cell's."""
    return _MAIN.get(cell.workload, Pass.TIME)


SETS_SHARE = 0.05
"""Of the memory that a cell may use, what further sets of inputs may take while it is timed; on top of it."""
FIT_SHARE = 0.9
"""Of the memory that a cell may use, what a batch that is searched for may."""


class Roof(Noun):
    """Measured ceilings of one dtype: a large matrix product, a large copy and one in cache (bytes read plus written)."""

    flops_per_second: float = Field(gt=0, allow_inf_nan=False)
    bytes_per_second: float = Field(gt=0, allow_inf_nan=False)
    cached_bytes_per_second: float | None = Field(default=None, gt=0, allow_inf_nan=False)

    def fastest(self, flops: float, moved: float) -> float:
        """Seconds that no call with this work can stay below, were all that it touches in cache."""
        return max(flops / self.flops_per_second, moved / max(self.bytes_per_second, self.cached_bytes_per_second or 0.0))


class Limits(Noun):
    """What one job may use."""

    seconds: float = Field(default=15.0, gt=0, description="warm-up and samples together end by then")
    timeout: float = Field(default=120.0, gt=0, description="the whole process group is killed then")
    flops: float = Field(
        default=0.0, ge=0, description="that a call executes at least: by its method, or as counted in its check"
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
    seed: int = 0
    B: int | None = Field(default=None, ge=1, description="batch in place of the problem's, where the largest is searched for")
    warmup: int | None = Field(default=None, description="calls; None = until steady")
    folder: str | None = Field(default=None, description="where checkpoints are kept; never part of a record")
    limits: Limits = Limits()


class Inquiry(Noun):
    """A question to one method: who are you, which of these cells can you run, and what do they cost?"""

    kind: Literal["inquiry"] = "inquiry"
    method: str
    cells: tuple[Cell, ...] = ()


class Survey(Noun):
    """A question to the machine: which device, what is it, and how fast are its products and copies?"""

    kind: Literal["survey"] = "survey"
    device: str = "auto"
    ceilings: tuple[str, ...] = ()
    """Of cells, each once."""


class Prospect(Noun):
    """What a method says of one cell: the reason it cannot run; or its cost, and the cells to check it on."""

    why_not: str | None = None
    cost: Cost | None = None
    checks: tuple[Cell, ...] = ()


class Description(Noun):
    """What a method says of itself."""

    kind: Literal["description"] = "description"
    method: str
    paper: str
    tier: str
    causality: str
    summary: str
    version: str = Field(description="distribution, version and digest of the source that will run")
    parameters: tuple[str, ...] = ()
    missing: tuple[str, ...] = Field(default=(), description="requirements that are not installed")
    prospects: tuple[Prospect, ...] = ()


class Surroundings(Noun):
    """The device that `auto` came to, its facts, and the roofs, each under the `ceiling` of a cell."""

    kind: Literal["surroundings"] = "surroundings"
    device: str
    facts: dict[str, Scalar | None]
    memory_bytes: int
    roof: dict[str, Roof]


Errand = Annotated[Job | Inquiry | Survey, Field(discriminator="kind")]
Answer = Annotated[Measured | Failed | Description | Surroundings, Field(discriminator="kind")]
ERRAND: TypeAdapter[Job | Inquiry | Survey] = TypeAdapter(Errand)
ANSWER: TypeAdapter[Measured | Failed | Description | Surroundings] = TypeAdapter(Answer)
