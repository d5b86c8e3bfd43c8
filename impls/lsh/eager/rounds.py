"""Attention in all rounds of hashing as one differentiable function.

B rows (batch and heads folded), N tokens.
"""

from torch import Tensor

from ...partial.opaque import opaque
from ...partial.softmax import sums
from .backward import gradients_into
from .forward import attend_into
from .hiding import Hiding
from .ring import Ring
from .rows import Sorted, Terms, rows_together


def attend_rounds(qk: Tensor, v: Tensor, given: Sorted, terms: Terms) -> Tensor:
    """Compute Σ over candidates of all rounds of softmax(q·k̂ scale) v: [B, N, D], [B, N, M] -> [B, N, M].

    Kitaev et al. 2020, eq. 3 and 6: rounds weighted by exp(z_r - z) are one softmax. A token that sees only itself in all
    rounds gets its own value. Differentiable once; keeps inputs, output, order and one number for each token. Half precision is
    computed in float32.
    """
    hiding = terms.hiding
    flags = [hiding.ring.after, hiding.causal, hiding.across, hiding.corrected]
    return _attend(qk, v, given.order, given.buckets, hiding.ring.bucket_size, flags, terms.scale)


def _forward(
    qk: Tensor, v: Tensor, order: Tensor, buckets: Tensor | None, bucket_size: int, flags: list[bool], scale: float
) -> tuple[Tensor, Tensor]:
    """Compute the output [B, N, M] and log₂ Σ 2^score [B, N]."""
    o, log_total = _made(qk, v)
    for rows, part in rows_together(qk, Sorted(order, buckets), _terms(order, bucket_size, flags, scale)):
        log_total[rows] = attend_into(_tokens(o[rows]), part, part.tokens(qk[rows]), part.tokens(v[rows])).view(-1, qk.shape[1])
    return o, log_total


def _made(_: Tensor, v: Tensor, *others: object) -> tuple[Tensor, Tensor]:  # noqa: ARG001
    return v.new_empty(v.shape), v.new_empty(v.shape[:2], dtype=sums(v.dtype))


def _backward(
    g: Tensor, tensors: list[Tensor], results: list[Tensor], bucket_size: int, flags: list[bool], scale: float
) -> tuple[Tensor, Tensor]:
    (qk, v, *places), (o, log_total) = tensors, results
    dqk, dv = _gradients(g, tensors)
    for rows, part in rows_together(qk, Sorted(*places), _terms(places[0], bucket_size, flags, scale)):
        inputs = part.tokens(qk[rows]), part.tokens(v[rows])
        final = part.tokens(g[rows]), part.tokens(o[rows]), log_total[rows].flatten()
        gradients_into((_tokens(dqk[rows]), _tokens(dv[rows])), part, inputs, final)
    return dqk, dv


def _gradients(_: Tensor, tensors: list[Tensor], *others: object) -> tuple[Tensor, Tensor]:  # noqa: ARG001
    qk, v, *_places = tensors
    return qk.new_empty(qk.shape), v.new_empty(v.shape)


_attend = opaque("attend_rounds", _forward, _made, _backward, _gradients)


def _terms(order: Tensor, bucket_size: int, flags: list[bool], scale: float) -> Terms:
    after, causal, across, corrected = flags
    return Terms(Hiding(Ring(order.shape[2], order.shape[1], bucket_size, after), causal, across, corrected), scale)


def _tokens(x: Tensor) -> Tensor:
    """View dense [B, N, M] as [B N, M], to be written."""
    return x.view(-1, x.shape[2])
