"""Attention over a table and a window through the Triton kernels: their arguments, and how they are differentiated.

B batch, H heads of q, K of k and v, N tokens, S codes, T tables, D query/key width, M value width. Importing this needs triton.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import triton.language as tl  # type: ignore[import-untyped, unused-ignore]
from torch import Tensor

from ...partial.tiles import arithmetic, padded
from . import kernels
from .plan import Plan, Shape
from .tuning import Blocks, Launch, merged


@dataclass(frozen=True)
class Launcher:
    """A plan, and what all kernels are compiled for."""

    plan: Plan
    widths: dict[str, int]
    products: dict[str, Any]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the whole numbers that every kernel with products takes."""
        shape, cut = self.plan.shape, self.plan.cut
        return shape.kv_heads, shape.N, shape.S, cut.tokens, cut.tables

    def constants(self, name: str) -> dict[str, Any]:
        """Return what the kernel of that name, a field of Blocks, is compiled for."""
        how: Launch = getattr(self.plan.blocks, name)
        own, other = {"sums": ("BS", "BK"), "codes": ("BS", "BQ"), "keys": ("BK", "BQ")}.get(name, ("BQ", "BK"))
        # fusion is asked for explicitly, since the default differs between versions of Triton
        options = {"num_warps": how.warps, "num_stages": how.stages, "enable_fp_fusion": True}
        shape = self.plan.shape
        mode = {} if name == "sums" else {"R": shape.H // shape.kv_heads, "CAUSAL": shape.causal}
        widths = {key: width for key, width in self.widths.items() if name != "sums" or key in {"M", "BM"}}
        return {**widths, **self.products, own: how.own, other: how.other, **mode, **options}

    def over_codes(self, name: str, tensors: tuple[Tensor, ...], strides: list[int]) -> None:
        """Launch a program for each tile of codes of each table."""
        constants = self.constants(name)
        grid = (self.plan.of_codes(constants["BS"]),)
        _kernel(name)[grid](*tensors, *self.sizes, *strides, **constants)

    def over_tokens(self, name: str, tensors: tuple[Tensor, ...], strides: list[int], **more: bool) -> None:
        """Launch a program for each tile of tokens of each head: of k for `keys`, else of q."""
        constants, shape = self.constants(name), self.plan.shape
        heads = shape.groups if name == "keys" else shape.heads
        grid = (self.plan.of_tokens(heads, getattr(self.plan.blocks, name).own),)
        _kernel(name)[grid](*tensors, *self.sizes, *strides, **constants, **more)

    def along_tables(self, name: str, *tensors: Tensor) -> None:
        """Launch a program for each tile of codes of each head, which goes through all tables."""
        shape, block = self.plan.shape, merged(self.plan.shape.M)
        widths = {"M": shape.M, "BM": padded(shape.M), "BS": block, "num_warps": 4, "enable_fp_fusion": True}
        _kernel(name)[self.plan.of_walks(block),](*tensors, shape.S, self.plan.cut.tables, **widths)


def launcher(q: Tensor, v: Tensor, S: int, L: int, *, causal: bool, chosen: Blocks | None = None) -> Launcher:
    """Plan the launches for tensors [B, H, N, D] and [B, K, N, M]; blocks are from the table unless given."""
    (B, H, N, D), (_, kv_heads, _, M) = q.shape, v.shape
    widths = {"D": D, "M": M, "BD": padded(D), "BM": padded(M)}
    plan = Plan.of(Shape(B, H, kv_heads, N, D, M, S, L, causal), arithmetic(q.dtype), chosen)
    return Launcher(plan, widths, dtypes_of_products(q))


def dtypes_of_products(x: Tensor) -> dict[str, Any]:
    """Choose what products of tensors like x round to, are computed in, and how precisely."""
    rounded = {torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}.get(x.dtype, tl.float32)
    # tensors on a CPU are for Triton's interpreter, whose products of bfloat16 are wrong
    operand = tl.float32 if x.device.type == "cpu" else rounded
    return {"ROUNDED": rounded, "OPERAND": operand, "PRECISION": "tf32" if arithmetic(x.dtype) == "tf32" else "ieee"}


def tables(p: Launcher, v: Tensor, codes: Tensor) -> tuple[Tensor, Tensor]:
    """Compute means [BK, T, S, M] of values and counts [BK, T, S] of each code up to the end of each segment."""
    shape, count = p.plan.shape, p.plan.cut.tables
    means = v.new_empty(shape.groups, count, shape.S, shape.M, dtype=torch.float32)
    counts = v.new_empty(shape.groups, count, shape.S, dtype=torch.float32)
    if count:
        p.over_codes("sums", (codes, v, means, counts), strides(codes, v))
        p.along_tables("tables", means, counts)
    return means, counts


def attend(p: Launcher, inputs: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Compute o [B, H, N, M] and the logsumexp [B, H, N], to the base 2, from q, k, v, codes and codebook.

    The tables are freed: keeping them for the backward would take N S M / L numbers, and building them again takes a fraction
    of its time.
    """
    q, k, v, codes, codebook = dense(inputs)
    o, logsumexp = _results(q, v)
    with current(q):
        made = tables(p, v, codes)
        of_all = [*strides(q, k, v), *codebook.stride()[:2], *strides(o)]
        p.over_tokens("attend", (q, k, v, o, logsumexp, codebook, *made), of_all)
    return o, logsumexp


def pull_back(
    p: Launcher, inputs: list[Tensor], kept: list[Tensor], g: Tensor, *, through_table: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute dq, dk and dv from dL/do, by queries, by codes, then by keys; no atomics.

    Each walk needs only the final output and logsumexp: Dao et al. 2022, appendix B.2. `kept` is what `attend` returned.
    """
    q, k, v, codes, codebook, g = dense([*inputs, g])
    o, logsumexp = kept
    dq, dk, dv, deltas = *(torch.empty_like(x) for x in (q, k, v)), torch.empty_like(logsumexp)
    of_codes = list(codebook.stride()[:2])
    with current(q):
        means, counts = tables(p, v, codes)
        of_queries = (q, k, v, o, g, logsumexp, deltas, codebook, means, counts, dq)
        p.over_tokens("queries", of_queries, [*strides(q, k, v, o, g), *of_codes, *strides(dq)])
        # the memory of means, which are not read again, is reused
        shares = means
        if through_table and p.plan.cut.tables:
            p.over_codes("codes", (q, g, logsumexp, codebook, counts, shares), [*strides(q, g), *of_codes])
            p.along_tables("shares", shares)
        of_keys = (q, k, v, g, logsumexp, deltas, codes, shares, dk, dv)
        p.over_tokens("keys", of_keys, strides(q, k, v, g, codes, dk, dv), TABLE=through_table)
    return dq, dk, dv


@torch.library.custom_op("attnbench::vq_attention_triton", mutates_args=())
def vq_attention(  # noqa: PLR0913, PLR0917 - an operator takes tensors and plain values, one by one
    q: Tensor,
    k: Tensor,
    v: Tensor,
    codes: Tensor,
    codebook: Tensor,
    block: int,
    causal: bool,
    through_table: bool,  # noqa: ARG001 - for the backward
) -> tuple[Tensor, Tensor]:
    """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M], int64 [B, K, N], [K, S, D] -> o [B, H, N, M]; also the logsumexp.

    Lingle 2023, theorems 3.7 and 3.4; k are the quantised keys, scale 1. Differentiable once: in q, in k within the window, and
    in v there and, if `through_table`, beyond.
    """
    return attend(launcher(q, v, codebook.shape[1], block, causal=causal), [q, k, v, codes, codebook])


@vq_attention.register_fake
def _fake(  # noqa: PLR0913, PLR0917
    q: Tensor,
    k: Tensor,  # noqa: ARG001 - one signature
    v: Tensor,
    codes: Tensor,  # noqa: ARG001
    codebook: Tensor,  # noqa: ARG001
    block: int,  # noqa: ARG001
    causal: bool,  # noqa: ARG001
    through_table: bool,  # noqa: ARG001
) -> tuple[Tensor, Tensor]:
    return _results(q, v)


@torch.library.custom_op("attnbench::vq_attention_triton_backward", mutates_args=())
def _backward(
    inputs: list[Tensor], kept: list[Tensor], g: Tensor, block: int, causal: bool, through_table: bool
) -> tuple[Tensor, Tensor, Tensor]:
    p = launcher(inputs[0], inputs[2], inputs[4].shape[1], block, causal=causal)
    return pull_back(p, inputs, kept, g, through_table=through_table)


@_backward.register_fake
def _fake_backward(
    inputs: list[Tensor],
    kept: list[Tensor],  # noqa: ARG001 - one signature
    g: Tensor,  # noqa: ARG001
    block: int,  # noqa: ARG001
    causal: bool,  # noqa: ARG001
    through_table: bool,  # noqa: ARG001
) -> tuple[Tensor, Tensor, Tensor]:
    dq, dk, dv = (torch.empty_like(x) for x in dense(inputs[:3]))
    return dq, dk, dv


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:  # noqa: ANN401 - torch's own bag
    *tensors, ctx.block, ctx.causal, ctx.through_table = inputs
    ctx.save_for_backward(*tensors, *output)
    ctx.mark_non_differentiable(output[1])
    # otherwise torch fills zeros for what was not differentiated
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, g: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own bag
    *tensors, o, logsumexp = ctx.saved_tensors
    gradients = _backward(tensors, [o, logsumexp], g, ctx.block, ctx.causal, ctx.through_table)
    return *gradients, None, None, None, None, None


vq_attention.register_autograd(_differentiate, setup_context=_keep)


def _kernel(name: str) -> Any:  # noqa: ANN401 - triton's own
    return getattr(kernels, f"{name}_kernel")


def strides(*tensors: Tensor) -> list[int]:
    """Return each tensor's strides over batch, heads and tokens."""
    return [stride for x in tensors for stride in x.stride()[:3]]


def dense(tensors: list[Tensor]) -> list[Tensor]:
    """Make the last dimension dense, copying only where it is not."""
    return [x if x.stride(-1) == 1 else x.contiguous() for x in tensors]


def _results(q: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Allocate o [B, H, N, M] and the logsumexp [B, H, N]."""
    shape = q.shape[:3]
    return q.new_empty(*shape, v.shape[-1]), q.new_empty(shape, dtype=torch.float32)


def current(x: Tensor) -> AbstractContextManager[object]:
    """Make the device of x current, on which Triton launches."""
    return torch.cuda.device(x.device) if x.is_cuda else nullcontext()
