"""Attention over some of the keys with the logsumexp of its scores, and its share of the backward.

Softmax over a union of disjoint sets of keys is the mean of the softmaxes over each, weighted by exp(logsumexp). In the
backward each set needs only the final output and logsumexp (Dao et al. 2022, appendix B.2): dS = P ∘ (dO Vᵀ - rowsum(dO ∘ O)).

X, Y two batch dimensions, Q queries, S keys, D query/key width, M value width. Tensors may be views of any strides; those whose
last dimension is dense are read as they are. Every query must see at least one key.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .widths import one_width

LOG2_E = 1 / math.log(2)
"""Turns powers of e into those of 2: on a CPU torch's exp takes 3 times as long as exp2, and 50 times where it underflows."""

_fused = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
_fused_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default


@dataclass(frozen=True)
class Rule:
    """The rule by which scores are scaled and hidden: either by `bias` [., ., Q, S], broadcast over X and Y, or by `causal`.

    The bias is added to the scaled scores, with -inf for hidden keys; `causal` hides keys of a higher index.
    """

    scale: float
    causal: bool = False
    bias: Tensor | None = None


def attend(q: Tensor, k: Tensor, v: Tensor, rule: Rule) -> tuple[Tensor, Tensor]:
    """Attend: [X, Y, Q, D], [X, Y, S, D], [X, Y, S, M] -> o [X, Y, Q, M] and logsumexp [X, Y, Q], in float32 at least."""
    if not is_fused(q):
        return _plain(q, k, v, rule)
    M, (q, k, v) = v.shape[-1], _readable(q, k, v)
    o, logsumexp = _fused(q, k, v, 0.0, rule.causal, attn_mask=rule.bias, scale=rule.scale)
    return o[..., :M], logsumexp


def pull_back(
    g: Tensor, inputs: tuple[Tensor, Tensor, Tensor], final: tuple[Tensor, Tensor], rule: Rule
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute this part's dL/dq, dL/dk and dL/dv, from g = dL/do and the output and logsumexp of all parts together."""
    q, k, v = inputs
    if not is_fused(q):
        return _plain_backward(g, inputs, final, rule)
    D, M = q.shape[-1], v.shape[-1]
    q, k, v, g, o = _readable(q, k, v, g, final[0])
    logsumexp, (pairs, queries), keys = final[1], (q.shape[:2].numel(), q.shape[2]), k.shape[2]
    parts = 1
    if not rule.causal and rule.bias is None:
        # the kernel works at one x and y with one core; of as many queries as keys, copies of keys would cost what that saves
        parts = math.gcd(queries, max(1, min(torch.get_num_threads() // max(1, pairs), queries // keys)))
    if parts > 1:
        q, g, o, logsumexp = (x.unflatten(2, (parts, -1)).flatten(1, 2) for x in (q, g, o, logsumexp))
        k, v = (x.repeat_interleave(parts, 1) for x in (k, v))
    dq, dk, dv = _fused_backward(g, q, k, v, o, logsumexp, 0.0, rule.causal, attn_mask=rule.bias, scale=rule.scale)
    if parts > 1:
        dq = dq.unflatten(1, (-1, parts)).flatten(2, 3)
        dk, dv = (x.unflatten(1, (-1, parts)).sum(2) for x in (dk, dv))
    return dq[..., :D], dk[..., :D], dv[..., :M]


def merge_(o: Tensor, logsumexp: Tensor, part: tuple[Tensor, Tensor]) -> None:
    """Merge one more part into the output [..., Q, M] and logsumexp [..., Q], in place; start with 0 and -inf."""
    # exp(b) / (exp(a) + exp(b)), so that o, which dominates the cost, is passed over once
    share = torch.sigmoid(part[1] - logsumexp)
    o.lerp_(part[0].to(o.dtype), share.unsqueeze(-1).to(o.dtype))
    logsumexp.copy_(torch.logaddexp(logsumexp, part[1]))


def is_fused(x: Tensor) -> bool:
    """Say whether torch has a kernel that returns the logsumexp for any mask, which it has on a CPU."""
    return x.device.type == "cpu"


def sums(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of scores and of sums over parts: float32 at least."""
    return torch.float64 if dtype is torch.float64 else torch.float32


def _readable(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Pad tensors to the widest and make them dense, because the kernel takes one width and assumes a last stride of 1."""
    return tuple(map(_dense, one_width(*tensors)))


def _dense(x: Tensor) -> Tensor:
    """Copy only where the last dimension is not dense."""
    return x if x.stride(-1) == 1 else x.contiguous()


def _scores(q: Tensor, k: Tensor, rule: Rule) -> Tensor:
    """Compute scores [X, Y, Q, S] in the dtype of sums."""
    scores = (q @ k.mT).to(sums(q.dtype)).mul_(rule.scale)
    if rule.bias is not None:
        scores += rule.bias
    if rule.causal:
        scores.masked_fill_(torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu_(1), -torch.inf)
    return scores


def _plain(q: Tensor, k: Tensor, v: Tensor, rule: Rule) -> tuple[Tensor, Tensor]:
    scores = _scores(q, k, rule)
    logsumexp = scores.logsumexp(-1)
    return scores.sub_(logsumexp.unsqueeze(-1)).exp_().to(v.dtype) @ v, logsumexp


def _plain_backward(
    g: Tensor, inputs: tuple[Tensor, Tensor, Tensor], final: tuple[Tensor, Tensor], rule: Rule
) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = inputs
    p = _scores(q, k, rule).sub_(final[1].unsqueeze(-1)).exp_()
    dv = p.to(v.dtype).mT @ g
    slope = (g @ v.mT).to(p.dtype).sub_((g * final[0]).sum(-1, keepdim=True, dtype=p.dtype))
    ds = p.mul_(slope).mul_(rule.scale).to(q.dtype)
    return ds @ k, ds.mT @ q, dv
