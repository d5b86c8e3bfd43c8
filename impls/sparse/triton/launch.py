"""The launch of one walk.

B batch, H heads, N tokens, D query/key width, M value width, S shares of split work. Importing this needs triton.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import triton.language as tl  # type: ignore[import-untyped, unused-ignore]
from torch import Tensor

from ...partial.tiles import arithmetic, padded
from ..patterns.pattern import Shape
from .tables import Table, tables
from .tuning import Blocks, Launch, blocks, fitted, programs, splits


@dataclass(frozen=True)
class Plan:
    """The facts that all launches for one problem have in common, and the walks from the queries' side and from the keys'."""

    B: int
    H: int
    N: int
    group: int
    widths: dict[str, int]
    products: dict[str, Any]
    blocks: Blocks
    queries: tuple[Table, ...]
    keys: tuple[Table, ...]

    def jobs(self, launch: Launch, *, of_keys: bool = False) -> "Iterator[Job]":
        """Go through the launches of all walks of one side, in order."""
        for table in self.keys if of_keys else self.queries:
            how = fitted(launch, table.walk, of_keys=of_keys)
            heads = len(table.sharing if of_keys else table.rows)
            side_by_side = self.B * heads * programs(table.walk, how, of_keys=of_keys)
            yield Job(self, table, how, splits(table.walk, side_by_side, of_keys=of_keys), of_keys)


@dataclass(frozen=True)
class Job:
    """One launch: a program for each block of each head of each sequence, and for each share of it."""

    plan: Plan
    table: Table
    launch: Launch
    shares: int
    of_keys: bool

    @property
    def heads(self) -> Tensor:
        """Return the heads that it writes, int32."""
        return (self.table.sharing if self.of_keys else self.table.rows)[:, 0]

    def scratch(self, width: int) -> Tensor:
        """Allocate float32 [S, B, heads, tokens of the walk, width], for the results of shares."""
        shape = self.shares, self.plan.B, len(self.heads), self.table.walk.stop, width
        return torch.empty(shape, dtype=torch.float32, device=self.heads.device)

    def constants(self) -> dict[str, Any]:
        """Return what a kernel is compiled for."""
        how, walk, split = self.launch, self.table.walk, self.shares > 1
        # fusion is asked for explicitly, since the default differs between versions of Triton
        options = {"num_warps": how.warps, "num_stages": how.stages, "enable_fp_fusion": True}
        tile = {"BQ": how.queries, "BK": how.keys, "UNITS": walk.has_units, "MORE": walk.more and not split, "SPLIT": split}
        cells = {"CELLS": walk.places.summary} if self.of_keys else {}
        return {**self.plan.widths, **self.plan.products, **options, **tile, **cells}

    def start(self, kernel: Any, tensors: tuple[Tensor, ...], read: tuple[Tensor, ...], *written: Tensor) -> None:  # noqa: ANN401
        """Launch on all `tensors`, given the strides of those that are read and of those that are written."""
        p, walk, places = self.plan, self.table.walk, self.table.walk.places
        tiles, count = programs(walk, self.launch, of_keys=self.of_keys), len(self.heads)
        problem = p.widths["D"] ** -0.5, p.B, p.H, p.group, p.N
        where = (
            count,
            tiles,
            tiles // places.groups,
            walk.first,
            walk.stop,
            places.apart,
            places.stride,
            places.cell,
            places.step,
        )
        strides = [n for x in read for n in x.stride()[:3]] + [n for x in written for n in _shared_strides(x)]
        arguments = (*tensors, self.table.sharing, self.table.rows, self.table.bands, *problem, *where, self.shares, *strides)
        kernel[(tiles * count * p.B * self.shares,)](*arguments, **self.constants())


def plan(inputs: tuple[Tensor, ...], pattern: str, causal: bool, chosen: Blocks | None = None) -> Plan:
    """Plan the launches for q, k, v; blocks are from the table unless given."""
    q, k, v = inputs
    (B, H, N, D), M, kind = q.shape, v.shape[-1], arithmetic(q.dtype)
    rounded = {torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}.get(q.dtype, tl.float32)
    # tensors on a CPU are for Triton's interpreter, whose products of bfloat16 are wrong
    operand = tl.float32 if q.device.type == "cpu" else rounded
    products = {"ROUNDED": rounded, "OPERAND": operand, "PRECISION": "tf32" if kind == "tf32" else "ieee"}
    widths = {"D": D, "M": M, "BD": padded(D), "BM": padded(M)}
    group = H // k.shape[1]
    walks = tables(pattern, Shape(N, H, causal), group, q.device)
    return Plan(B, H, N, group, widths, products, chosen or blocks(D, M, kind), *walks)


def _shared_strides(x: Tensor) -> tuple[int, ...]:
    """Return the strides over shares, batch, heads and tokens; results that are not scratch have one share."""
    return x.stride()[:4] if x.dim() == 5 else (0, *x.stride()[:3])
