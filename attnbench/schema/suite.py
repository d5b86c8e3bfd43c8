"""Suite: what to compare, as a suite file states it. The fields document the keys of the file."""

import json
import re
from collections.abc import Collection
from hashlib import sha256
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)

from attnbench.schema.cell import NEW_TOKENS, Allocator, ClockMode, Inputs, Precision, Workload
from attnbench.schema.condition import compile_condition
from attnbench.schema.figures import Figure
from attnbench.schema.model import Model
from attnbench.schema.noun import Lax, Noun, Scalar
from attnbench.schema.problem import LARGEST_BATCH, DType
from attnbench.schema.published import Published
from attnbench.schema.training import Task, Training

_T = TypeVar("_T")
_DEVICE = re.compile(r"auto|cpu|cuda(:[0-9]{1,3})?")
_POWER = re.compile(r"\s*(?:(\d+)\s*\^\s*)?(\d+)\s*")
_LARGEST = 2**24
"""The largest number in a suite: some costs are sums over all tokens, and must be computed in seconds."""
MOST_PROCESSES = 10**6
"""The most processes of one run; at a second each they take eleven days."""
_DAY = 86_400.0


def _integer(text: str) -> int:
    """Read a number such as `512` or `2^9`."""
    match = _POWER.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not a number; write 512, 2^9, or a range 2^9..2^16")
    base, last = match.groups()
    # a huge power is refused before it is computed
    if (base and int(last) > 24) or (value := int(base) ** int(last) if base else int(last)) > _LARGEST:
        raise ValueError(f"{text!r} is too large; numbers go up to 2^24")
    return value


def _integers(value: Any) -> Any:  # noqa: ANN401 - whatever the file says; pydantic judges the rest
    """Return the flat tuple of one number, `2^9`, `2^9..2^16` (in steps by powers of two), or a list of these."""
    if isinstance(value, list | tuple):
        return tuple(item for part in value for item in (_integers(part) if isinstance(part, str) else (part,)))
    if not isinstance(value, str):
        return (value,)
    low, dots, high = value.partition("..")
    if not dots:
        return (_integer(low),)
    first, last = _integer(low), _integer(high)
    if not 1 <= first <= last:
        raise ValueError(f"the range {value!r} is empty; write it from low to high, as 2^9..2^16")
    return tuple(first << step for step in range((last // first).bit_length()))


def _many(value: Any) -> Any:  # noqa: ANN401
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _batches(value: Any) -> Any:  # noqa: ANN401
    """Return the flat tuple of numbers, as `_integers` reads them, and of the word `max`."""
    parts = _many(value)
    if strange := [part for part in parts if isinstance(part, str) and part.isalpha() and part != "max"]:
        raise ValueError(f"{strange[0]!r} is not a batch; write 512, 2^9, a range 2^9..2^16, or max")
    return tuple(item for part in parts for item in (("max",) if part == "max" else _integers(part)))


Positive = Annotated[int, Field(ge=1, le=_LARGEST)]
Replicates = Annotated[int, Field(ge=1, le=MOST_PROCESSES)]
Integers = Annotated[tuple[Positive, ...], BeforeValidator(_integers)]
Sizes = Annotated[tuple[Annotated[int, Field(ge=1, le=2**16)], ...], BeforeValidator(_integers)]
# the tags give one error for one mistake; error paths leave out what stands in brackets, for it is not a key of the file
Size = Annotated[
    Annotated[Annotated[int, Field(ge=1, le=LARGEST_BATCH)], Tag("[number]")] | Annotated[Literal["max"], Tag("[max]")],
    Discriminator(lambda value: "[max]" if value == "max" else "[number]"),
]
Batches = Annotated[tuple[Size, ...], BeforeValidator(_batches)]
Many = Annotated[tuple[_T, ...], BeforeValidator(_many), Field(min_length=1)]


class Axes(Noun):
    """The axes of the sweep; each is one value or a list. The fields mean the same as in Problem and Cell."""

    N: Integers = Field(default=(), description="tokens: 512, 2^9, 2^9..2^16 (by powers of two), or a list")
    B: Batches = Field(default=(), description="batch, or `max`: the largest that fits, found for each cell; or give `tokens`")
    tokens: Integers = Field(default=(), description="tokens in the batch: B = max(1, tokens // N)")
    H: Sizes = Field(default=(8,), min_length=1, description="heads of queries")
    D: Sizes = Field(default=(64,), min_length=1, description="width of queries and keys, per head")
    M: Sizes = Field(default=(), description="value width; D where not given")
    kv_heads: Sizes = Field(default=(), description="heads of k and v; H where not given")
    dtype: Many[Lax[DType]] = Field(default=(DType.FLOAT32,), description="float64, float32, bfloat16 or float16")
    causal: Many[bool] = Field(default=(False,), description="whether a query sees no later key")
    padding: Many[Annotated[float, Field(ge=0, lt=1)]] = Field(
        default=(0.0,),
        description="the share of the keys that the last row of the batch hides; rows before it hide evenly less",
    )
    inputs: Many[Lax[Inputs]] = Field(
        default=(Inputs.NORMAL,), description="how queries, keys and values are drawn: normal, peaked, clustered or recorded"
    )
    recording: Many[str] = Field(default=("",), description="the .safetensors file of recorded inputs")
    scale: Many[Annotated[float, Field(gt=0)]] = Field(default=(1.0,), description="a factor on queries and keys")
    allocator: Many[Lax[Allocator]] = Field(
        default=(Allocator.RETAIN,), description="whether the heap of a CPU retains freed blocks, or returns them"
    )
    matmul_precision: Many[Lax[Precision]] = Field(
        default=(Precision.HIGHEST,), description="of products in float32, as torch.set_float32_matmul_precision takes it"
    )
    packed: Many[bool] = Field(
        default=(False,),
        description="whether sequences of a padded batch lie in one row: [false, true] shows the price",
    )
    compile: Many[bool] = Field(
        default=(False,), description="whether torch.compile compiles the method: [false, true] puts both side by side"
    )
    new_tokens: Sizes = Field(
        default=(NEW_TOKENS,), min_length=1, description="the last tokens of N, which the workload verify attends at once"
    )
    clock: Many[Lax[ClockMode]] = Field(
        default=(ClockMode.DEFAULT,), description="which clock times a call; by default the one that suits device and workload"
    )

    @model_validator(mode="after")
    def _one_batch_rule(self) -> Self:
        if self.B and self.tokens:
            raise ValueError("give B or tokens, not both")
        return self


def _listed(once: type[Noun], **usual: object) -> type[Noun]:
    """Return a noun with the fields of another, each of one value or a list; `usual` are defaults where it has none."""
    fields: dict[str, Any] = {}
    for name, field in once.model_fields.items():
        # a bound that the field has itself comes later, and so holds in place of the general one
        bound, read = (Field(le=_LARGEST), _integers) if field.annotation is int else (Field(), _many)
        each: Any = Annotated[field.annotation, bound, *field.metadata]
        several = Annotated[tuple[each, ...], BeforeValidator(read), Field(min_length=1)]
        default = usual.get(name, ... if field.is_required() else (field.default,))
        fields[name] = (several, Field(default, description=field.description))
    return create_model(once.__name__, __base__=Noun, **fields)


class TrainingAxes(_listed(Training, task=(Task.COPY,))):  # type: ignore[misc]  # its fields are made at run time
    """The model around the attention and its task, with the fields of Training; each is one value or a list."""


class ModelAxes(_listed(Model)):  # type: ignore[misc]
    """The whole model around the attention, with the fields of Model; each is one value or a list."""


class Method(Noun):
    """One method; a parameter given as a list is swept; `when` keeps only the cells for which it holds."""

    name: str = Field(min_length=1, description="as `attnbench methods` lists it, or one's own: module:Class, file.py:Class")
    params: dict[str, Many[Scalar]] = Field(default_factory=dict, description="its parameters, each one value or a list")
    when: str | None = Field(default=None, description="a condition on the cell, as: causal and N >= 2^10")

    @model_validator(mode="before")
    @classmethod
    def _a_name_alone(cls, value: Any) -> Any:  # noqa: ANN401
        return {"name": value} if isinstance(value, str) else value

    @field_validator("when")
    @classmethod
    def _is_a_condition(cls, value: str | None, info: ValidationInfo) -> str | None:
        # where params were refused, their names are not known here, and the error about them is enough
        if value is not None and "params" in info.data:
            compile_condition(value, frozenset(info.data["params"]))
        return value


_COMPILING = 600.0


class Budget(Noun):
    """The most that one cell may cost."""

    seconds: float = Field(default=15.0, gt=0, le=2 * _DAY, description="warm-up and samples of one replicate")
    memory: float = Field(default=0.7, gt=0, le=1, description="share of the memory that is free at the start")
    # the kernel counts milliseconds in 32 bits, so that no wait can be longer than 24 days
    timeout: float | None = Field(
        default=None, gt=0, le=20 * _DAY, description="seconds until a replicate is killed; else 60 + 8 x seconds"
    )
    check_timeout: float | None = Field(
        default=None,
        gt=0,
        le=20 * _DAY,
        description="seconds until a check is killed; else a replicate's, and at least 600 on a GPU, where kernels compile",
    )

    def timeout_of(self, device_kind: str, *, checks: bool) -> float:
        """Return the seconds after which a process is killed: a check's on a GPU compiles, and may tune, many kernels."""
        replicate = self.timeout or 60.0 + 8.0 * self.seconds
        if not checks:
            return replicate
        return self.check_timeout or max(replicate, _COMPILING if device_kind == "cuda" else 0.0)


TableKind = Literal["summary", "speedup", "fidelity", "numerics", "published", Figure]
PlotKind = Literal["fidelity", "numerics", "curves", "drawings", "memory_against_time", Figure]


class ReportSpec(Noun):
    """The tables and plots that are made at the end of a run."""

    tables: tuple[TableKind, ...] = Field(
        default=("summary", "time", "memory"), description="summary, speedup, fidelity, numerics, published, or any figure"
    )
    plots: tuple[PlotKind, ...] = Field(
        default=("time", "memory"), description="fidelity, numerics, curves, drawings, memory_against_time, or any figure"
    )
    baselines: tuple[str, ...] = Field(
        default=(),
        description="what speed-ups are relative to; else the fastest exact softmax (and, in decoding, the uncached one)",
    )
    labels: dict[str, Annotated[str, Field(min_length=1, max_length=48)]] = Field(
        default_factory=dict,
        description="what tables and figures call a method, or one with its parameters: softmax.sdpa: FlashAttention",
    )

    def of_methods(self, names: Collection[str]) -> "ReportSpec":
        """Return the same without the baselines and labels of other methods."""
        baselines = tuple(name for name in self.baselines if name in names)
        labels = {label: text for label, text in self.labels.items() if label.partition("(")[0] in names}
        return self.model_copy(update={"baselines": baselines, "labels": labels})


class Override(Noun):
    """The parts of a suite that differ on one kind of device; only keys that are written in the file count."""

    axes: Axes = Field(default=Axes(), description="the axes that differ; the others stay")
    budget: Budget = Field(default=Budget(), description="what of the budget differs")
    replicates: Replicates | None = Field(default=None, description="instead of the suite's own")
    workloads: Many[Lax[Workload]] | None = Field(default=None, description="instead of the suite's own")
    methods: tuple[Method, ...] | None = Field(default=None, min_length=1, description="instead of the suite's own")
    training: TrainingAxes | None = Field(default=None, description="what of the model differs")
    model: ModelAxes | None = Field(default=None, description="another whole model")


class Suite(Noun):
    """A named cartesian product of axes, methods and workloads."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", description="also the name of the folder under results/")
    source: str = Field(default="", description="the paper and figure, or the purpose, in words")
    device: str = Field(default="auto", description="auto, cpu, cuda or cuda:1")
    axes: Axes = Field(description="what varies; every combination is a cell")
    workloads: Many[Lax[Workload]] = Field(
        default=(Workload.FORWARD,),
        description=", ".join(Workload),
    )
    methods: tuple[Method, ...] = Field(min_length=1, description="what is compared: names, or name, params and when")
    budget: Budget = Field(default=Budget(), description="what one cell may cost")
    replicates: Replicates = Field(default=3, description="processes that measure each cell; five and more give intervals")
    memory_replicates: Replicates = Field(default=1, description="memory passes per cell; the counters are near deterministic")
    seed: int = Field(default=0, ge=0, lt=2**31, description="of inputs, of the methods' own choices and of the order")
    training: TrainingAxes | None = Field(default=None, description="the model, for the workloads train and generate")
    model: ModelAxes | None = Field(
        default=None, description="the whole model of the workloads model_…: its config says its heads"
    )
    on: dict[Literal["cpu", "cuda"], Override] = Field(default_factory=dict, description="what differs on one kind of device")
    report: ReportSpec = Field(default=ReportSpec(), description="tables and plots that are made at the end")
    published: tuple[Published, ...] = Field(default=(), description="what others printed, and how it is read off this run")

    @field_validator("device")
    @classmethod
    def _is_a_device(cls, value: str) -> str:
        if not _DEVICE.fullmatch(value):
            raise ValueError(f"{value!r} is not a device; write auto, cpu, cuda or cuda:1")
        return value

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        """Refuse a suite without lengths, or without a model that it needs on one kind of device."""
        if not self.axes.N:
            raise ValueError("axes.N is missing; write N: 2^9..2^16, or a list of lengths")
        for kind in ("cpu", "cuda"):
            here = self.on.get(kind, Override())
            works = here.workloads or self.workloads
            if any(workload.has_task for workload in works) and not (here.training or self.training):
                raise ValueError(f"training is missing for {kind}; train and generate need a model: training: {{task: copy}}")
            if any(workload.has_whole_model for workload in works) and not (here.model or self.model):
                raise ValueError(f"model is missing for {kind}; whole models need one: model: {{config: llama-10m}}")
        return self

    @property
    def names(self) -> frozenset[str]:
        """The names of all methods, of every device."""
        return frozenset(m.name for methods in (self.methods, *(o.methods or () for o in self.on.values())) for m in methods)

    @property
    def digest(self) -> str:
        """Twelve letters that stand for what is measured, how it is reported and how often it is repeated left aside.

        Keys that are as they would be by themselves count for nothing, so that a new key leaves it as it was.
        """
        beside = {"source", "device", "replicates", "report", "published"}
        measured = self.model_dump(mode="json", exclude=beside, exclude_defaults=True)
        return sha256(json.dumps(measured, sort_keys=True).encode()).hexdigest()[:12]

    def resolved(self, device: str) -> "Suite":
        """Return this suite for one device: overrides applied, baselines and labels only of methods that are there."""
        override = self.on.get("cuda" if device.startswith("cuda") else "cpu")
        changed: dict[str, Any] = {"device": device, "on": {}}
        if override is not None:
            written = {name: getattr(override, name) for name in override.model_fields_set - {"axes", "budget"}}
            # a key without a value says nothing
            changed |= {name: value for name, value in written.items() if value is not None}
            changed["axes"] = _fold(self.axes, override.axes)
            changed["budget"] = _fold(self.budget, override.budget)
            if self.training is not None and override.training is not None:
                changed["training"] = _fold(self.training, override.training)
        found = self.model_copy(update=changed)
        return found.model_copy(update={"report": found.report.of_methods(found.names)})


def _fold(base: Any, over: Any) -> Any:  # noqa: ANN401 - two nouns of one type
    """Return the base with the keys that were written in the override."""
    written = {name: getattr(over, name) for name in over.model_fields_set}
    if {"B", "tokens"} & set(written):
        written = {"B": (), "tokens": ()} | written
    return base.model_copy(update=written)
