"""The plugin surface: all that an attention ever imports.

B batch, H heads, N tokens, D query/key width, M value width. Tensors are [B, H, N, .] where they go in and come out.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass, replace
from enum import StrEnum
from inspect import Parameter, Signature, signature
from numbers import Number
from typing import Any, ClassVar, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnbench.schema.cell import Cell, Precision, Workload
from attnbench.schema.cost import Cost
from attnbench.schema.noun import Scalar
from attnbench.schema.problem import HALF, UP_TO_FLOAT32, DType, Problem

__all__ = [
    "HALF",
    "UP_TO_FLOAT32",
    "Attention",
    "Causality",
    "Cell",
    "Cost",
    "DType",
    "Layout",
    "Problem",
    "Projection",
    "Scalar",
    "State",
    "Tier",
    "Workload",
    "default_scale",
    "dense_flops",
    "draw",
    "io_bytes",
    "laid_out",
    "nominal_flops",
    "padding_mask",
    "takes",
    "tensors_of",
]

State = Any
"""What a method keeps between the tokens that it decodes: a dataclass or tuple of tensors, each with the batch first, and of
plain numbers."""


class Tier(StrEnum):
    """The kind of implementation of a method, so that algorithm and implementation are not confused."""

    EAGER = "eager"
    COMPILED = "compiled"
    TRITON = "triton"
    CUDA = "cuda"
    LIBRARY = "library"


class Causality(StrEnum):
    """The keys that a causal call hides: nothing, everything later, or only later values (hashing sees later keys)."""

    NONE = "none"
    FULL = "full"
    VALUES_ONLY = "values_only"


class Layout(StrEnum):
    """The order of the dimensions in memory, outermost first; the shape is [B, H, N, .] in either case."""

    BHND = "BHND"
    BNHD = "BNHD"


class Projection(NamedTuple):
    """A tensor [b, heads, n, width] that a model computes from its tokens for an attention.

    It is called `q`, `k` or `v`; `qk` where queries and keys are one tensor; a gate by what it is.
    """

    name: str
    heads: int
    width: int


class Attention(nn.Module, ABC):
    """One attention method, built for one problem.

    A subclass states what it is and its limits by class attributes, and what these cannot say in words by `why_not`; the
    harness never guesses. Its constructor takes the problem and its own keyword parameters.
    """

    paper: ClassVar[str]
    tier: ClassVar[Tier] = Tier.EAGER
    causality: ClassVar[Causality] = Causality.FULL
    is_softmax: ClassVar[bool] = False
    """True where it computes softmax attention and nothing else: the fastest of these is what others are compared with."""
    layout: ClassVar[Layout] = Layout.BHND
    decodes: ClassVar[bool] = False
    """True where `prefill` and `step` exist."""
    appends: ClassVar[bool] = False
    """True where `step` only adds to a state, so that the state before it stays as it was: a cache that grows."""
    recomputes: ClassVar[bool] = False
    """True where decoding attends the whole prefix again for each token, so that a model around it has to do so too."""
    masks: ClassVar[bool] = False
    """True where `forward` and `reference` take `key_mask`, bool [B, N], False for keys that no query of that row may see."""
    independent: ClassVar[bool] = True
    """True where samples of a batch do not influence each other, nor do heads that share no key."""
    packs: ClassVar[bool] = False
    """True where documents of any length may lie one after the other in one row, none of which sees another."""
    weighs: ClassVar[bool] = True
    """True where the output sums the rows of v, the third input, by one weight for each query and key: weights to look at."""
    rows_choose: ClassVar[bool] = False
    """True where `rows`, given no choices, makes those of its queries itself: `choose` makes all, which may take N²."""
    causal_only: ClassVar[bool] = False
    """True where there is no form without a mask; one that has no causal form says so by its causality."""
    because: ClassVar[str] = ""
    """Why it is causal only, or has no causal form; or what does the other form."""
    grouped: ClassVar[bool] = True
    """True where a head of k and v may serve several heads of q: kv_heads below H."""
    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")
    dtypes: ClassVar[tuple[DType, ...]] = tuple(DType)
    widths: ClassVar[tuple[int, int]] = (1, 2**16)
    """The least and the largest D and M."""
    one_width: ClassVar[bool] = False
    """True where M must equal D."""
    tf32: ClassVar[bool] = False
    """True where it multiplies float32 as TF32, whatever the matmul precision."""
    windowed: ClassVar[str] = ""
    """The method that computes the same over the last `window` tokens only, for models some of whose layers see no more."""
    in_models: ClassVar[str] = ""
    """What transformers calls it where it is a model's own attention: whole models are then measured as they are."""
    tunes: ClassVar[bool] = False
    """True where its kernels try launches at their first call and keep the best for shapes unlike it, on disk: it is then
    called at the shape that is timed before it is checked at smaller ones, with as many heads."""
    requires: ClassVar[tuple[str, ...]] = ()
    """The packages needed beyond torch, as pip requirements; import them in `__init__`, not at the top of the file."""

    def __init_subclass__(cls, **given: Any) -> None:  # noqa: ANN401 - whatever a class statement says
        """Take a word for what it stands for, as `causality = "full"`, and where a tuple is due for the only one in it.

        Raises ValueError for a word that stands for nothing.
        """
        super().__init_subclass__(**given)
        for name, kind in (("tier", Tier), ("causality", Causality), ("layout", Layout)):
            if (said := vars(cls).get(name)) is not None:
                if said not in set(kind):
                    raise ValueError(f"{cls.__name__}: {name} = {said!r} is none of {', '.join(kind)}")
                setattr(cls, name, kind(said))
        for name in ("devices", "dtypes", "requires"):
            if isinstance(said := vars(cls).get(name), str):
                setattr(cls, name, (said,))

    def __init__(self, problem: Problem) -> None:
        super().__init__()
        self.problem = problem

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:  # noqa: ARG003 - the default has no limits
        """Say why this cell cannot run, where no class attribute says it; or return None."""
        return None

    @classmethod
    def refusal(cls, cell: Cell) -> str | None:
        """Return the reason why this cell cannot run: by what the class declares, else in its own words by `why_not`."""
        p, decodes, (least, most) = cell.problem, cell.workload.decodes, cls.widths
        because, names = f": {cls.because}" if cls.because else "", {"cpu": "CPUs", "cuda": "CUDA devices"}
        dtypes = " and ".join(filter(None, (", ".join(cls.dtypes[:-1]), cls.dtypes[-1])))
        widths = f"up to {most}" if least == 1 else f"from {least} to {most}"
        found = [
            (decodes and not cls.decodes, "it does not decode token by token"),
            (decodes and not p.causal, "decoding is causal; set causal: true"),
            (p.padding and not cls.masks, "it takes no key mask, so there can be no padding"),
            (p.padding and decodes, "decoding is without padding"),
            (cell.device_kind not in cls.devices, f"it runs on {' and '.join(names.get(each, each) for each in cls.devices)}"),
            (cls.causal_only and not p.causal, f"it is causal only{because}; set causal: true"),
            (cls.causality is Causality.NONE and p.causal, f"it has no causal form{because}; set causal: false"),
            (p.kv_heads != p.H and not cls.grouped, f"each head of q has its own k and v: kv_heads must equal H={p.H}"),
            (p.dtype not in cls.dtypes, f"it computes in {dtypes}, not in {p.dtype}"),
            (p.M != p.D and cls.one_width, f"values are as wide as keys: M={p.M} must equal D={p.D}"),
            (min(p.D, p.M) < least or max(p.D, p.M) > most, f"it takes widths {widths}, not D={p.D} and M={p.M}"),
            (
                cls.tf32 and p.dtype is DType.FLOAT32 and cell.matmul_precision is Precision.HIGHEST,
                "it multiplies float32 as TF32; set matmul_precision: high to compare it with others that do",
            ),
        ]
        return next((why for wrong, why in found if wrong), None) or cls.why_not(cell)

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost | None:  # noqa: ARG003
        """Return the FLOPs and bytes of one call, by formula; None where there is none, and shares of a roof are unknown.

        Raises TypeError or ValueError for bad parameters.
        """
        signature(cls).bind(problem, **params)
        return None

    @classmethod
    def prompt_cost(cls, problem: Problem, params: dict[str, Scalar]) -> Cost | None:
        """Return the cost of attending to a prompt: that of `forward`, where `prefill` computes what that does."""
        return cls.cost(problem, params, Workload.FORWARD)

    @classmethod
    def span(cls, problem: Problem, params: dict[str, Scalar]) -> int:  # noqa: ARG003 - others follow from the length
        """Return the tokens of the longest part of this method's structure at this length: a chunk, a window, a stride.

        The method is checked on sequences of more than two such parts, and beside their borders. The default is the largest
        whole number among its parameters. Raises TypeError or ValueError for bad parameters, as `cost` does.
        """
        defaults = {name: parameter.default for name, parameter in signature(cls).parameters.items()}
        numbers = [x for x in (defaults | params).values() if isinstance(x, int) and not isinstance(x, bool)]
        return max([1, *numbers])

    @classmethod
    def projections(cls, problem: Problem) -> tuple[Projection, ...]:
        """Return what a model has to compute from its tokens, in the order in which `admit` takes it."""
        p = problem
        return Projection("q", p.H, p.D), Projection("k", p.kv_heads, p.D), Projection("v", p.kv_heads, p.M)

    @classmethod
    def admit(cls, problem: Problem, *raw: Tensor) -> tuple[Tensor, ...]:  # noqa: ARG003 - the default takes all as it is
        """Turn one unconstrained tensor [b, heads, n, width] for each projection into exactly what `forward` takes.

        Norms and bounds belong here (keys of length 1, gates below 1). It takes any b and n ≥ 0, is differentiable, and keeps
        the order of dimensions in memory.
        """
        return raw

    @classmethod
    def draws(cls, problem: Problem, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Draw N(0, 1) for each projection, in their order, on the generator's device and in the native layout."""
        shapes = cls.projections(problem)
        return tuple(draw(problem, each.heads, each.width, generator, cls.layout) for each in shapes)

    @classmethod
    def drawn_once(cls, problem: Problem, generator: torch.Generator) -> dict[str, Any]:  # noqa: ARG003 - most have nothing
        """Draw what a layer has once for all tokens and `admit` takes by these names, such as how fast each head forgets."""
        return {}

    @classmethod
    def inputs(cls, problem: Problem, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Draw what `forward` takes: N(0, 1), admitted; on the generator's device, in the native layout."""
        raw = cls.draws(problem, generator)
        return cls.admit(problem, *raw, **cls.drawn_once(problem, generator))

    def adapt(self, *inputs: Tensor) -> None:
        """Set from these inputs what training learns without a gradient, such as a codebook."""

    def choose(self, *inputs: Tensor) -> Tensor | None:  # noqa: ARG002 - most methods choose nothing
        """Make the discrete choices (buckets, codes, blocks) of these inputs, or return None.

        Where it returns a tensor, `forward` and `reference` take it back as the keyword `choices`. If the method also decodes,
        tokens are in dim 2, and `prefill` and `step` take the part for their tokens by the same keyword.
        """
        return None

    @abstractmethod
    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend: [B, H, N, D] [B, H, N, D] [B, H, N, M] -> [B, H, N, M], differentiable."""

    def attend_documents(self, attend: Callable[..., Tensor], inputs: tuple[Tensor, ...], lengths: tuple[int, ...]) -> Tensor:
        """Attend documents of so many tokens that lie one after the other: [1, heads, N, ·] each -> [1, H, N, M].

        By default one by one with `attend`, which is `forward`; override it where all can be attended at once. Called only
        where the class `packs`.
        """
        parts = (x.split(lengths, 2) for x in inputs)
        return torch.cat([attend(*part) for part in zip(*parts, strict=True)], 2)

    @abstractmethod
    def reference(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Evaluate the paper's definition, dense and slow, in any dtype, with this object's own parameters and choices."""

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Evaluate the definition at a few tokens of one head of one sequence, in memory linear in N, differentiable.

        Takes `at`, int64 [n], and of that head and sequence alone q [N, D], k [N, D], v [N, M] and whatever else `forward`
        takes (a gate of a token is [N]); also `key_mask` [N] and `choices`, as keywords where `forward` takes them. Returns
        [n, M]. `head` counts heads of q, for parameters of a head.

        A method is compared with this, in float64, at the very shape that was timed; it must not be forward's own code.
        Where it is missing, `reference` is used as far as N² fits.
        """
        raise NotImplementedError(f"{type(self).__name__} has no rows")

    def exact(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Softmax attention over all keys: what this method approximates; override where that is another attention."""
        # fewer heads of k and v serve all heads of q
        return F.scaled_dot_product_attention(q, k, v, is_causal=self.problem.causal, enable_gqa=True)

    def prefill(self, q: Tensor, k: Tensor, v: Tensor, *, capacity: int) -> tuple[Tensor, State]:
        """Attend n ≥ 0 tokens, causally, and return the state after them, with room for `capacity` tokens in all.

        [b, H, n, D], [b, K, n, D], [b, K, n, M] and whatever else `forward` takes -> [b, H, n, M] and the state, for any b.
        Whatever is no input goes by keyword, for the number of inputs varies. Where `choose` returns a tensor, this takes its
        n tokens as the keyword `choices`, and makes choices of its own without. Raises NotImplementedError where the method
        does not decode.
        """
        raise NotImplementedError(f"{type(self).__name__} does not decode")

    def state_after(self, *inputs: Tensor, capacity: int) -> State:
        """Return the state after n ≥ 0 tokens, as `prefill` does, where nobody asks for their output.

        By default that of `prefill`; override it where the state takes less than attending: a cache only copies.
        """
        call: Callable[..., tuple[Tensor, State]] = self.prefill
        return call(*inputs, capacity=capacity)[1]

    def step(self, q: Tensor, k: Tensor, v: Tensor, *, state: State) -> tuple[Tensor, State]:
        """Attend one more token: [b, H, 1, D], [b, K, 1, D], [b, K, 1, M] -> [b, H, 1, M] and the state after it.

        It may write into the tensors of `state`, so go on with the state that it returns. Another step from the old state is
        allowed and costs the same, but its result is undefined. It takes `choices` for its token as `prefill` does.
        """
        raise NotImplementedError(f"{type(self).__name__} does not decode")

    def extend(self, *inputs: Tensor, state: State) -> tuple[Tensor, State]:
        """Attend n more tokens, each of which sees those before it, and return the state after them; n > 0.

        [b, heads, n, ·] each -> [b, H, n, M]. The state that is given stays as it was: whoever takes the new tokens back goes
        on from it. By default one step after the other, from a copy of the state unless the class `appends`; override it
        where all can be attended at once.
        """
        outputs, step = [], cast("Callable[..., tuple[Tensor, State]]", self.step)
        state = state if self.appends else each_tensor(state, Tensor.clone)
        for t in range(inputs[0].shape[2]):
            o, state = step(*(x[:, :, t : t + 1] for x in inputs), state=state)
            outputs.append(o)
        return torch.cat(outputs, dim=2), state

    def state_bytes(self, state: State) -> int:
        """Return the bytes that a state keeps."""
        return sum(t.numel() * t.element_size() for t in tensors_of(state))

    @contextmanager
    def observe(self) -> Iterator[dict[str, Scalar]]:
        """Record, while one untimed call runs inside, which kernel it reached; the default knows nothing."""
        yield {}


def takes(options: type) -> Signature:
    """Return the `__signature__` of a class whose constructor takes the fields of a dataclass as its parameters.

    By it `attnbench methods` lists the parameters, and mistyped ones are found. A field without a default follows from the
    problem.
    """
    defaults = {f.name: None if f.default is MISSING else f.default for f in fields(options)}
    parameters = [Parameter(name, Parameter.KEYWORD_ONLY, default=default) for name, default in defaults.items()]
    return Signature([Parameter("problem", Parameter.POSITIONAL_OR_KEYWORD), *parameters])


def draw(problem: Problem, heads: int, width: int, generator: torch.Generator, layout: Layout) -> Tensor:
    """Draw N(0, 1) of shape [B, heads, N, width], contiguous in `layout`."""
    shape = (problem.B, heads, problem.N, width)
    # drawn in the same order for every layout, so that all methods of a block see the same numbers
    x = torch.randn(shape, generator=generator, device=generator.device, dtype=getattr(torch, problem.dtype))
    return laid_out(x, layout)


def laid_out(x: Tensor, layout: Layout) -> Tensor:
    """Return [B, heads, N, ·] with its memory in the order of `layout`; it is copied only where it has another order."""
    return x.transpose(1, 2).contiguous().transpose(1, 2) if layout is Layout.BNHD else x.contiguous()


def padding_mask(problem: Problem, device: torch.device | str) -> Tensor | None:
    """Return which keys may be seen, bool [B, N]: the first `problem.lengths[b]` of row b; None without padding."""
    if not problem.padding:
        return None
    return torch.arange(problem.N, device=device) < torch.tensor(problem.lengths, device=device).unsqueeze(1)


def tensors_of(state: State) -> list[Tensor]:
    """List all tensors of a state, in order, however they are nested. Raises TypeError where it holds what could hide some."""
    if isinstance(state, Tensor):
        return [state]
    if is_dataclass(state):
        return [t for f in fields(state) for t in tensors_of(getattr(state, f.name))]
    return [t for part in state for t in tensors_of(part)] if _has_parts(state) else []


def each_tensor(state: State, change: Callable[[Tensor], Tensor]) -> State:
    """Return a state of the same form, with each of its tensors changed by a function. Raises as `tensors_of` does."""
    if isinstance(state, Tensor):
        return change(state)
    if is_dataclass(state) and not isinstance(state, type):
        return replace(state, **{f.name: each_tensor(getattr(state, f.name), change) for f in fields(state)})
    if not _has_parts(state):
        return state
    # a named tuple takes its fields one by one
    make = getattr(type(state), "_make", type(state))
    return make(each_tensor(part, change) for part in state)


def _has_parts(state: State) -> bool:
    """Say of what is neither a tensor nor a dataclass whether it has parts. Raises TypeError where that is not known."""
    if not isinstance(state, tuple | list | Number | str | None):
        kind = type(state).__name__
        raise TypeError(f"a state is a dataclass or tuple of tensors and plain numbers, and this one is or holds a {kind}")
    return isinstance(state, tuple | list)


def each_once(inputs: tuple[Tensor, ...], change: Callable[[Tensor], Tensor]) -> tuple[Tensor, ...]:
    """Change each input by a function; a tensor that is given twice stays one tensor."""
    results = {id(x): change(x) for x in {id(x): x for x in inputs}.values()}
    return tuple(results[id(x)] for x in inputs)


def nominal_flops(problem: Problem, workload: Workload) -> float:
    """Return the FLOPs of the workload by dense softmax attention: every method's `nominal`; decoding uses a cache."""
    p = problem
    if workload is Workload.DECODE:
        return 2.0 * p.B * p.H * p.N * (p.D + p.M)
    return dense_flops(p) * (3.0 if workload is Workload.FORWARD_BACKWARD else 1.0)


def dense_flops(problem: Problem) -> float:
    """Return the FLOPs of a forward of dense softmax attention of this shape, counting matrix products only.

    They are 2 B H N^2 (D + M), or B H N (N + 1) (D + M) where it is causal: Vaswani et al. 2017, section 3.2.1.
    """
    p = problem
    pairs = p.N * (p.N + 1) / 2 if p.causal else p.N * p.N
    return 2.0 * p.B * p.H * pairs * (p.D + p.M)


def io_bytes(problem: Problem, workload: Workload) -> float:
    """Return the bytes that any method must move: q, k, v in and o out; a backward reads them and g and writes 3 gradients.

    In decoding this counts the tokens that are decoded, without what is read of the state.
    """
    p = problem
    tokens = p.B * (1 if workload is Workload.DECODE else p.N)
    kv, q, o = tokens * p.kv_heads * (p.D + p.M), tokens * p.H * p.D, tokens * p.H * p.M
    forward = q + kv + o
    backward = q + kv + o + q + kv  # read q, k, v, g; write dq, dk, dv
    return float(p.dtype.bytes * (forward + (backward if workload is Workload.FORWARD_BACKWARD else 0)))


def default_scale(problem: Problem) -> float:
    """Return 1 / sqrt(D)."""
    return 1.0 / math.sqrt(problem.D)
