"""What others write of the same attentions in plain torch: rivals, as methods, for the suites `*_forms.yaml` beside this.

flash-linear-attention 0.6 keeps a plain form of each recurrence beside its kernels; of sparse attentions that form is a dense
mask in `F.scaled_dot_product_attention`. B batch, H heads, N tokens, M value width.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from attnbench_impls.blocks.eager.csa import CompressedSparse
from attnbench_impls.blocks.eager.hca import HeavilyCompressed
from attnbench_impls.blocks.eager.msa import BlocksByIndex
from attnbench_impls.blocks.reference import chosen_seen
from attnbench_impls.delta.eager.comba import Comba
from attnbench_impls.delta.eager.deltaproduct import DeltaProduct, GatedDeltaProduct
from attnbench_impls.delta.eager.gated_deltanet2 import GatedDeltaNet2
from attnbench_impls.delta.eager.mesa import MesaNet
from attnbench_impls.gated.gsa import GatedSlots
from attnbench_impls.gated.log_linear import LogLinear
from attnbench_impls.partial.unlearned import unlearned
from attnbench_impls.softmax.eager.forgetting import ForgettingSoftmax
from attnbench_impls.softmax.eager.path import PathSoftmax
from attnbench_impls.sparse.chosen.dsa import DeepSeekSparse
from attnbench_impls.sparse.chosen.qsa import QwenSparse
from attnbench_impls.sparse.eager.attention import EagerSinkWindow
from torch import Tensor

from attnbench.api import Attention, Cell, DType, Problem, Scalar, Tier, Workload

Form = Callable[..., Any]


class Plain(Attention):
    """A form whose cost is not counted, which neither decodes nor takes groups or packed rows."""

    tier = Tier.LIBRARY
    decodes = appends = packs = grouped = False
    dtypes: ClassVar[tuple[DType, ...]] = (DType.FLOAT32,)

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> None:
        """Refuse what the method itself refuses."""
        cls(problem, **params)


class OfFla(Plain):
    """A form of flash-linear-attention, which takes [B, N, H, ·]."""

    requires = ("fla-core>=0.6", "triton>=3.3")
    naive: ClassVar[str]
    """Where it is: a package of fla.ops, and a function of its module of plain forms."""

    def forward(self, *inputs: Tensor) -> Tensor:
        """Attend: each [B, H, N, ·] -> [B, H, N, M]."""
        package, name = self.naive.split(".")
        form = getattr(import_module(f"fla.ops.{package}.naive"), name)
        o = self.by(form, *(x.transpose(1, 2) for x in inputs))
        return (o if isinstance(o, Tensor) else o[0]).transpose(1, 2)

    def by(self, form: Form, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Attend in the package's order, [B, N, H, ·] -> [B, N, H, M], and what else it gives."""
        return form(*inputs)


class PlainComba(OfFla, Comba):
    """Chunk by chunk. Their form by tokens lets the state decay before the key reads it, unlike their kernels and the paper."""

    naive = "comba.naive_chunk_comba"

    def by(self, form: Form, q: Tensor, k: Tensor, v: Tensor, beta: Tensor, g: Tensor) -> tuple[Tensor, ...]:
        asks, fed_back = q - self.correction.unsqueeze(-1) * k, k * self.feedback.sigmoid().unsqueeze(-1)
        return form(asks, k, v, fed_back, g, beta)


class PlainGatedDeltaNet2(OfFla, GatedDeltaNet2):
    """Token by token."""

    naive = "gdn2.naive_recurrent_gdn2"

    def by(self, form: Form, q: Tensor, k: Tensor, v: Tensor, erase: Tensor, write: Tensor, g: Tensor) -> tuple[Tensor, ...]:
        return form(q, k, v, g, erase, write)


class PlainGatedDeltaNet2ByChunks(PlainGatedDeltaNet2):
    """Chunk by chunk: exp of hidden pairs makes its gradient NaN where a chunk loses more than 88 nats."""

    naive = "gdn2.naive_chunk_gdn2"

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Refuse training."""
        return "its gradient is NaN" if cell.workload is Workload.FORWARD_BACKWARD else None


class PlainProduct(OfFla):
    """Write by write."""

    naive = "gated_delta_product.naive_recurrent_gated_delta_product"

    def by(self, form: Form, *inputs: Tensor) -> tuple[Tensor, ...]:
        q, k, v, beta, keys, values, *decay = inputs
        k, v = (torch.stack(x, 2).flatten(1, 2) for x in ((k, keys), (v, values)))
        beta, g = beta.transpose(2, 3).flatten(1, 2), decay[0] if decay else None
        return form(q, k, v, g, beta, q.shape[-1] ** -0.5, num_householder=2)


class PlainDeltaProduct(PlainProduct, DeltaProduct):
    """DeltaProduct, write by write."""


class PlainGatedDeltaProduct(PlainProduct, GatedDeltaProduct):
    """Gated DeltaProduct, write by write."""


class PlainMesa(OfFla, MesaNet):
    """A dense system for each token."""

    naive = "mesa_net.naive_mesa_net_exact"

    def by(self, form: Form, q: Tensor, k: Tensor, v: Tensor, beta: Tensor, g: Tensor) -> tuple[Tensor, ...]:
        return form(q, k, v, g, self.weights, beta)


class PlainSlots(OfFla, GatedSlots):
    """Token by token."""

    naive = "gsa.naive_recurrent_gsa"

    def by(self, form: Form, q: Tensor, k: Tensor, v: Tensor, g: Tensor) -> tuple[Tensor, ...]:
        return form(q, k, v, -g.expm1(), g, scale=1.0)


class PlainLogLinear(OfFla, LogLinear):
    """By a dense mask for each level."""

    naive = "log_linear_attn.naive_log_linear_attn"

    def by(self, form: Form, *inputs: Tensor) -> Tensor:
        return form(*inputs, scale=1.0)


class PlainForgetting(OfFla, ForgettingSoftmax):
    """By dense scores."""

    naive = "forgetting_attn.naive_forgetting_attn"


class PlainPath(OfFla, PathSoftmax):
    """By dense scores."""

    naive = "path_attn.naive_path_attn"

    def by(self, form: Form, *inputs: Tensor) -> Tensor:
        return form(*inputs, g=inputs[0].new_zeros(inputs[0].shape[:3]), scale=self.scale)


class MaskedTokens(Plain):
    """All index scores at once, and all N² pairs by a mask that shows the listed tokens."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *scorer: Tensor, choices: Tensor | None = None) -> Tensor:
        """Attend as attention to listed tokens does."""
        kept = self.choose(q, k, v, *scorer) if choices is None else choices
        seen = shown(kept, q.shape[2])
        return unlearned(F.scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=self.scale), *scorer)


class MaskedDsa(MaskedTokens, DeepSeekSparse):
    """DSA."""


class MaskedQsa(MaskedTokens, QwenSparse):
    """QSA."""


class MaskedMsa(Plain, BlocksByIndex):
    """All N² pairs by a mask that shows own and chosen blocks."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *index: Tensor, choices: Tensor | None = None) -> Tensor:
        """Attend as blocks by an index do."""
        seen = chosen_seen(self.choose(q, k, v, *index) if choices is None else choices, self.terms.block)
        return unlearned(F.scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=self.terms.scale), *index)


class MaskedSinkWindow(Plain, EagerSinkWindow):
    """All N² pairs by a mask, and the sink as one more key."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:  # type: ignore[override]
        """Attend as a window with sinks does."""
        seen = self.pattern.seen(self.shape(q.shape[2]), q.device)
        return with_sinks(q, k, v, seen, self.sinks, self.scale)


class MaskedEntries(Plain):
    """All pairs of queries with tokens and with entries by a mask, and the sink as one more key."""

    def forward(self, q: Tensor, c: Tensor, u: Tensor, z: Tensor, *scorer: Tensor, choices: Tensor | None = None) -> Tensor:
        """Attend as a window and entries of blocks do."""
        e, s = self.compress(u.squeeze(1), z.squeeze(1)), torch.arange(q.shape[2])
        t = s.unsqueeze(1)
        tokens = (s <= t) & (s > t - self.reach.window)
        entries = torch.arange(e.shape[1]) < (t + 1) // self.reach.block
        if scorer:
            kept = self.choose(q, c, u, z, *scorer) if choices is None else choices
            entries = entries & shown(kept, e.shape[1])
            scorer = *scorer, *self.compress_index.parameters()
        seen = torch.cat((tokens.expand(*entries.shape[:-1], -1), entries), -1)
        keys = torch.cat((c, e.unsqueeze(1)), 2)
        return unlearned(with_sinks(q, keys, keys, seen, self.sink, self.reach.scale), *scorer)


class MaskedHca(MaskedEntries, HeavilyCompressed):
    """HCA: all entries."""


class MaskedCsa(MaskedEntries, CompressedSparse):
    """CSA: chosen entries."""


def shown(kept: Tensor, S: int) -> Tensor:
    """Mark the keys in a list, negative where there is none: [..., N, k] -> bool [..., N, S]."""
    seen = torch.zeros(*kept.shape[:-1], S + 1, dtype=torch.bool)
    return seen.scatter_(-1, torch.where(kept < 0, S, kept), value=True)[..., :-1]


def with_sinks(q: Tensor, k: Tensor, v: Tensor, seen: Tensor, sinks: Tensor, scale: float) -> Tensor:
    """Attend by a mask, [..., N, S], where a sink [H] is the score of one more key, whose value is 0."""
    mask = torch.zeros(seen.shape, dtype=q.dtype).masked_fill_(~seen, -torch.inf)
    sinks = sinks.view(-1, 1, 1).expand(len(q), -1, q.shape[2], 1)
    mask = torch.cat((mask.expand(*sinks.shape[:2], -1, -1), sinks), -1)
    k, v = (F.pad(x, (0, 0, 0, 1)).expand(-1, q.shape[1], -1, -1) for x in (k, v))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
