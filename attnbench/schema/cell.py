"""Cell: one point of a comparison, and its key."""

import hashlib
import json
import math
from enum import StrEnum
from typing import Any, Self

from pydantic import Field, model_validator

from attnbench.schema.model import Model
from attnbench.schema.noun import Lax, Noun, Scalar
from attnbench.schema.problem import DType, Problem
from attnbench.schema.training import Training

COMPILE, PACKED = "+compile", "+packed"
"""What follows the name of a method that torch.compile compiles, or whose documents lie in one row: `linear.full+packed`."""


def plain_name(method: str) -> str:
    """Return the name of a method without the forms that it asks for."""
    return method.removesuffix(COMPILE).removesuffix(PACKED)


class Workload(StrEnum):
    """A way in which a method is used."""

    FORWARD = "forward"
    FORWARD_BACKWARD = "forward_backward"
    BACKWARD = "backward"
    """The backward alone, again and again for one forward."""
    PREFILL = "prefill"
    """Attend a prompt of N tokens, and make the state that decoding goes on from."""
    VERIFY = "verify"
    """Attend the last few of N tokens at once, as a model checks what was guessed for it, and keep the state before them."""
    DECODE = "decode"
    """Decode one more token, the N-th."""
    DECODE_TOTAL = "decode_total"
    """Decode N tokens one after the other, starting from an empty state."""
    FIDELITY = "fidelity"
    """Measure how close a forward comes to exact attention; not timed."""
    NUMERICS = "numerics"
    """Measure how far rounding moves a forward and its gradients away from their definition; not timed."""
    TRAIN = "train"
    """Train a model around the method on a task; one call is one update."""
    GENERATE = "generate"
    """Let an untrained model around the method generate B sequences of N tokens, one token after the other."""
    MODEL_PREFILL = "model_prefill"
    """Read a prompt of N tokens with a whole model of transformers, up to what it says first."""
    MODEL_DECODE = "model_decode"
    """Read one more token, the N-th, with a whole model of transformers."""
    MODEL_TRAIN = "model_train"
    """Update a whole model of transformers once, on N tokens."""
    MODEL_QUALITY = "model_quality"
    """Measure what a whole model of transformers says of a text, beside what it says with its own attention; not timed."""

    @property
    def words(self) -> str:
        """Its name in titles, figures and sentences: `forward + backward`."""
        return _IN_WORDS.get(self, self.value)

    @property
    def has_model(self) -> bool:
        """Say whether there is a model around the attention."""
        return self.has_task or self.has_whole_model

    @property
    def has_task(self) -> bool:
        """Say whether there is the project's own small model around the attention, with a task to learn."""
        return self in {Workload.TRAIN, Workload.GENERATE}

    @property
    def has_whole_model(self) -> bool:
        """Say whether there is a whole model of transformers around the attention."""
        return self in {Workload.MODEL_PREFILL, Workload.MODEL_DECODE, Workload.MODEL_TRAIN, Workload.MODEL_QUALITY}

    @property
    def is_timed(self) -> bool:
        """Say whether calls are timed; comparisons with a definition have a score, but neither time nor memory."""
        return self not in {Workload.FIDELITY, Workload.NUMERICS, Workload.MODEL_QUALITY}

    @property
    def learns(self) -> bool:
        """Say whether a call takes gradients."""
        return self in {Workload.FORWARD_BACKWARD, Workload.BACKWARD, Workload.TRAIN, Workload.MODEL_TRAIN}

    @property
    def decodes(self) -> bool:
        """Say whether the attention alone is called with new tokens, which follow those of a state."""
        return self in {Workload.DECODE, Workload.DECODE_TOTAL, Workload.VERIFY}

    @property
    def makes_state(self) -> bool:
        """Say whether the attention makes a state, or goes on from one, and so is checked token by token."""
        return self.decodes or self in {Workload.PREFILL, Workload.MODEL_DECODE}

    @property
    def keeps_state(self) -> bool:
        """Say whether new tokens come to the attention alone or to a model around it one after the other: there is a state."""
        return self.decodes or self in {Workload.GENERATE, Workload.MODEL_DECODE}


class Allocator(StrEnum):
    """The behaviour of the C allocator with freed blocks: keep them, or glibc's default of giving large ones back."""

    RETAIN = "retain"
    SYSTEM = "system"


class Precision(StrEnum):
    """torch's float32 matmul precision."""

    HIGHEST = "highest"
    HIGH = "high"
    MEDIUM = "medium"


class ClockMode(StrEnum):
    """The clock; `default` is cold on CUDA, but wall for trainings, whole sequences and whole models, and wall on a CPU.

    `graph` replays a CUDA graph with warm caches, `graph_cold` with L2 evicted before each replay.
    """

    DEFAULT = "default"
    COLD = "cold"
    GRAPH = "graph"
    GRAPH_COLD = "graph_cold"
    WALL = "wall"

    @property
    def replays(self) -> bool:
        """Whether a call is captured once and then replayed, with the storages that it had."""
        return self in {ClockMode.GRAPH, ClockMode.GRAPH_COLD}


class Batch(StrEnum):
    """The source of B: the problem, or a search for the largest that fits into memory (then the problem says 1)."""

    FIXED = "fixed"
    LARGEST = "largest"


class Inputs(StrEnum):
    """The source of q, k and v."""

    NORMAL = "normal"
    """N(0, 1)."""
    PEAKED = "peaked"
    """Each query matches one key, which gets most of its softmax weight."""
    CLUSTERED = "clustered"
    """Queries and keys lie around a few common centres."""
    RECORDED = "recorded"
    """q, k and v that a trained model made, read from a file."""


_IN_WORDS = {
    Workload.FORWARD_BACKWARD: "forward + backward",
    Workload.BACKWARD: "backward alone",
    Workload.VERIFY: "verifying new tokens",
    Workload.DECODE: "decoding",
    Workload.DECODE_TOTAL: "decoding a whole sequence",
    Workload.TRAIN: "training",
    Workload.GENERATE: "generating",
    Workload.MODEL_PREFILL: "whole model, to its first token",
    Workload.MODEL_DECODE: "whole model, next token",
    Workload.MODEL_TRAIN: "whole model, update",
    Workload.MODEL_QUALITY: "whole model, what it says",
}
_CALLS = {
    Workload.FIDELITY: (Workload.FORWARD,),
    Workload.NUMERICS: (Workload.FORWARD,),
    Workload.BACKWARD: (Workload.FORWARD_BACKWARD,),
    Workload.PREFILL: (Workload.FORWARD, Workload.DECODE),
    Workload.VERIFY: (Workload.DECODE,),
    Workload.TRAIN: (Workload.FORWARD_BACKWARD,),
    # a method that cannot decode attends the whole prefix again for each token
    Workload.GENERATE: (Workload.FORWARD,),
    Workload.MODEL_PREFILL: (Workload.FORWARD,),
    Workload.MODEL_DECODE: (Workload.DECODE,),
    Workload.MODEL_TRAIN: (Workload.FORWARD_BACKWARD,),
    Workload.MODEL_QUALITY: (Workload.FORWARD,),
}
"""The workloads that a method itself is asked about, where its calls are only a part of what is measured."""
NEW_TOKENS = 8
"""The tokens that are verified at once where a suite does not say."""


CONDITIONS = ("inputs", "recording", "scale", "allocator", "matmul_precision", "clock")
"""Fields of a cell that say how it is run; the axes of a suite have the same names."""


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
    model: Model | None = Field(default=None, description="the whole model around the attention, where there is one")
    new_tokens: int = Field(default=1, ge=1, description="the last tokens of N, which are verified at once")

    @model_validator(mode="after")
    def _has_finite_numbers(self) -> Self:
        # a key is of JSON, which has no others
        for name, value in {"scale": self.scale, **self.params}.items():
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{name}={value}: it is no finite number")
        return self

    def canonical(self) -> dict[str, Any]:
        """Return the fields as JSON data without defaults, so that a field added later changes no old key."""
        data = self.model_dump(mode="json", exclude_defaults=True, exclude={"problem"})
        if ":" in self.device:
            # like GPUs of a machine count as one; unlike ones are told by the environment
            data["device"] = "cuda:0"
        return {**data, "problem": self.problem.canonical()}

    @property
    def call(self) -> Self:
        """The cell as its method sees it: the workload of a single call, without a model around it."""
        return self.calls[0]

    @property
    def calls(self) -> tuple[Self, ...]:
        """All that its method must be able to do, that of a single call first."""
        same = {"training": None, "model": None, "new_tokens": 1}
        works = _CALLS.get(self.workload)
        return tuple(self.model_copy(update={"workload": work, **same}) for work in works) if works else (self,)

    @property
    def first_token(self) -> int:
        """The number of the first token, counted from 0, to which a row of a call's output belongs."""
        return self.problem.N - self.new_tokens if self.workload.decodes else 0

    # not cached: a copy with other fields would take the cached key along
    @property
    def key(self) -> str:
        """The sha256 of the canonical JSON."""
        text = json.dumps(self.canonical(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def laid(self) -> Self:
        """The cell as it is measured: documents that are packed lie in one row."""
        return self.model_copy(update={"problem": self.problem.in_one_row}) if PACKED in self.method else self

    @property
    def values(self) -> dict[str, Scalar]:
        """The names that a `when` condition can use, with their values."""
        how = self.model_dump(mode="json", include={"workload", "batch", "new_tokens", *CONDITIONS})
        about = {"device": self.device_kind, "packed": PACKED in self.method, "compile": COMPILE in self.method}
        models = [each.model_dump(mode="json") for each in (self.training, self.model) if each]
        model = {name: value for each in models for name, value in each.items()}
        return {**self.problem.model_dump(mode="json"), **how, **about, **model, **self.params}

    @property
    def label(self) -> str:
        """The method with its parameters, as tables and legends show it."""
        return label(self.method, self.params)

    @property
    def ceiling(self) -> str:
        """The name of the measured roof that applies: its dtype, and for float32 the matmul precision if that is lower."""
        p, precision = self.problem.dtype, self.matmul_precision
        rounded = p is DType.FLOAT32 and precision is not Precision.HIGHEST
        return f"{p.value}, matmul {precision.value}" if rounded else p.value

    @property
    def device_kind(self) -> str:
        """The device without its index: cpu or cuda."""
        return self.device.partition(":")[0]

    def reshaped(self, **shape: int | bool) -> Self:
        """Return the cell with other values for some fields of its problem, such as B or N."""
        return self.model_copy(update={"problem": self.problem.model_copy(update=shape)})


def label(method: str, params: dict[str, Scalar]) -> str:
    """Return the name of a method with its parameters, such as `linear.chunked(chunk=32)`."""
    inner = ", ".join(f"{name}={value}" for name, value in sorted(params.items()))
    return f"{method}({inner})" if inner else method


def draw_seed(suite_seed: int, cell: Cell, replicate: int) -> int:
    """Return the seed of a cell's inputs: another one for each replicate, and the same for all methods of a block."""
    # canonical: a field added later changes no old seed
    shape = json.dumps(cell.problem.canonical(), sort_keys=True)
    kind = cell.inputs if cell.training is None else f"{cell.training.task}/{cell.training.data}"
    text = f"{suite_seed}/{shape}/{kind}/{replicate}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]) >> 1
