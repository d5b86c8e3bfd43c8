"""Cell: one point of a comparison, and its key."""

import hashlib
import json
from enum import StrEnum
from typing import Any, Self

from pydantic import Field

from attnbench.schema.noun import Lax, Noun, Scalar
from attnbench.schema.problem import DType, Problem
from attnbench.schema.training import Training


class Workload(StrEnum):
    """What is done with a method."""

    FORWARD = "forward"
    FORWARD_BACKWARD = "forward_backward"
    DECODE = "decode"
    """One token more, when it and all before it are N."""
    DECODE_TOTAL = "decode_total"
    """N tokens, one after the other, from nothing."""
    FIDELITY = "fidelity"
    """How much of the exact attention a forward keeps; not timed."""
    NUMERICS = "numerics"
    """How far rounding takes a forward and its gradients from their definition; not timed."""
    TRAIN = "train"
    """A model around the method learns a task; one call is one update."""
    GENERATE = "generate"
    """That model makes B sequences of N tokens, one token after the other; its weights are as they were drawn."""

    @property
    def has_model(self) -> bool:
        """Whether there is a model around the attention."""
        return self in {Workload.TRAIN, Workload.GENERATE}

    @property
    def is_timed(self) -> bool:
        """Whether a call takes time that counts: what is held against a definition has a score and neither time nor memory."""
        return self not in {Workload.FIDELITY, Workload.NUMERICS}

    @property
    def decodes(self) -> bool:
        """Whether tokens come one at a time."""
        return self in {Workload.DECODE, Workload.DECODE_TOTAL}

    @property
    def keeps_state(self) -> bool:
        """Whether tokens come one at a time, of an attention alone or of a model around it: there is a state to show."""
        return self.decodes or self is Workload.GENERATE


class Allocator(StrEnum):
    """What the C allocator does with freed blocks: keep them, or glibc's default of giving large ones back."""

    RETAIN = "retain"
    SYSTEM = "system"


class Precision(StrEnum):
    """torch's float32 matmul precision."""

    HIGHEST = "highest"
    HIGH = "high"
    MEDIUM = "medium"


class ClockMode(StrEnum):
    """How time is read; `default` is cold on CUDA, but wall for whole sequences, and wall on a CPU."""

    DEFAULT = "default"
    COLD = "cold"
    GRAPH = "graph"
    WALL = "wall"


class Batch(StrEnum):
    """Where B comes from: the problem, or a search for the largest that fits into memory (then the problem says 1)."""

    FIXED = "fixed"
    LARGEST = "largest"


class Inputs(StrEnum):
    """Where q, k and v come from."""

    NORMAL = "normal"
    """N(0, 1)."""
    PEAKED = "peaked"
    """Each query has one key that it wants: softmax attention puts most of its mass there."""
    CLUSTERED = "clustered"
    """Queries and keys lie around a few common centres."""
    RECORDED = "recorded"
    """Those of a trained model, from a file."""


_CALLS = {
    Workload.FIDELITY: Workload.FORWARD,
    Workload.NUMERICS: Workload.FORWARD,
    Workload.TRAIN: Workload.FORWARD_BACKWARD,
    # what cannot decode attends the whole prefix anew
    Workload.GENERATE: Workload.FORWARD,
}


class Cell(Noun):
    """One method, with its parameters, on one problem, under stated conditions."""

    method: str
    problem: Problem
    workload: Lax[Workload] = Workload.FORWARD
    params: dict[str, Scalar] = Field(default_factory=dict)
    device: str = "cpu"
    inputs: Lax[Inputs] = Inputs.NORMAL
    recording: str = Field(default="", description="file of recorded inputs; empty for the one that ships")
    scale: float = Field(default=1.0, gt=0, description="what queries and keys are multiplied by")
    allocator: Lax[Allocator] = Allocator.RETAIN
    matmul_precision: Lax[Precision] = Precision.HIGHEST
    clock: Lax[ClockMode] = ClockMode.DEFAULT
    batch: Lax[Batch] = Batch.FIXED
    training: Training | None = Field(default=None, description="the model around the attention, where there is one")

    def canonical(self) -> dict[str, Any]:
        """JSON-ready fields with defaults left out, so that a field added later changes no old key."""
        data = self.model_dump(mode="json", exclude_defaults=True, exclude={"problem"})
        return {**data, "problem": self.problem.canonical()}

    @property
    def call(self) -> Self:
        """The cell as its method is asked about it: what is made of a call, a score or a model, it knows nothing of."""
        if self.workload not in _CALLS:
            return self
        return self.model_copy(update={"workload": _CALLS[self.workload], "training": None})

    # not cached: a copy with other fields would take the cached key along
    @property
    def key(self) -> str:
        """sha256 of the canonical JSON."""
        text = json.dumps(self.canonical(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def values(self) -> dict[str, Scalar]:
        """What a condition may speak of."""
        about = {"workload": self.workload.value, "device": self.device_kind, "batch": self.batch.value}
        about |= {"inputs": self.inputs.value}
        model = self.training.model_dump(mode="json") if self.training else {}
        return {**self.problem.model_dump(mode="json"), **about, "scale": self.scale, **model, **self.params}

    @property
    def label(self) -> str:
        """The method with its parameters, as tables and legends show it."""
        return label(self.method, self.params)

    @property
    def ceiling(self) -> str:
        """Which of a run's roofs stands over it: that of its dtype, of float32 also by what its products may be rounded to."""
        p, precision = self.problem.dtype, self.matmul_precision
        rounded = p is DType.FLOAT32 and precision is not Precision.HIGHEST
        return f"{p.value}, matmul {precision.value}" if rounded else p.value

    @property
    def device_kind(self) -> str:
        """The device without its index: cpu or cuda."""
        return self.device.partition(":")[0]


def label(method: str, params: dict[str, Scalar]) -> str:
    """`linear.chunked`, or `linear.chunked(chunk=32)`."""
    inner = ", ".join(f"{name}={value}" for name, value in sorted(params.items()))
    return f"{method}({inner})" if inner else method
