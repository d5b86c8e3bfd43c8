"""Softmax over a pattern through the Triton kernels, and its gradient.

B batch, H heads, K heads of k and v, N tokens, D query/key width, M value width, S shares of split work. Importing this needs
triton.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from . import kernels
from .launch import Job, Plan, plan


def attend(p: Plan, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Compute o [B, H, N, M] and the logsumexp [B, H, N], to the base 2; -inf where no key is seen."""
    q, k, v = _dense(q), _dense(k), _dense(v)
    o, logsumexp = _results(q, v)
    with _device(q):
        for job in p.jobs(p.blocks.attend):
            some, numbers = (job.scratch(v.shape[-1]), job.scratch(1)) if job.shares > 1 else (o, logsumexp)
            job.start(kernels.attend_kernel, (q, k, v, some, numbers), (q, k, v), some)
            if job.shares > 1:
                _take_in((o, logsumexp), (some, numbers.squeeze(-1)), job)
    return o, logsumexp


def pull_back(p: Plan, inputs: list[Tensor], kept: list[Tensor], g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute dq, dk and dv from dL/do, by blocks of queries for dq, then of keys; no atomics.

    Each walk needs only the final output and logsumexp: Dao et al. 2022, appendix B.2. `kept` is what `attend` returned.
    """
    rows, numbers = (*(_dense(x) for x in inputs), kept[0], _dense(g)), (kept[1], torch.empty_like(kept[1]))
    with _device(g):
        # in this order, because the first walks of queries write what the keys need of each row
        dq = _pull_queries(p, rows, numbers)
        return dq, *_pull_keys(p, rows, numbers)


def _pull_queries(p: Plan, rows: tuple[Tensor, ...], numbers: tuple[Tensor, Tensor]) -> Tensor:
    dq = torch.empty_like(rows[0])
    for job in p.jobs(p.blocks.queries):
        some = job.scratch(dq.shape[-1]) if job.shares > 1 else dq
        job.start(kernels.queries_kernel, (*rows, *numbers, some), rows, some)
        if job.shares > 1:
            _add(dq, some, job)
    return dq


def _pull_keys(p: Plan, rows: tuple[Tensor, ...], numbers: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    q, k, v, _, g = rows
    # where no walk adds, the first walks write every token
    make = torch.zeros_like if p.keys[0].walk.more else torch.empty_like
    dk, dv = make(k), make(v)
    for job in p.jobs(p.blocks.keys, of_keys=True):
        some = (job.scratch(k.shape[-1]), job.scratch(v.shape[-1])) if job.shares > 1 else (dk, dv)
        job.start(kernels.keys_kernel, (q, k, v, g, *numbers, *some), (q, k, v, g), *some)
        if job.shares > 1:
            _add(dk, some[0], job)
            _add(dv, some[1], job)
    return dk, dv


@torch.library.custom_op("attnbench::sparse_attention_triton", mutates_args=())
def sparse_attention(q: Tensor, k: Tensor, v: Tensor, pattern: str, causal: bool) -> tuple[Tensor, Tensor]:
    """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M] -> o [B, H, N, M]; also the logsumexp, for the backward.

    Softmax over the keys that the pattern shows, scale 1 / √D: Child et al. 2019, eq. 2-3. Differentiable once. `pattern` is
    what `described` returned.
    """
    return attend(plan((q, k, v), pattern, causal), q, k, v)


@sparse_attention.register_fake
def _fake(q: Tensor, k: Tensor, v: Tensor, pattern: str, causal: bool) -> tuple[Tensor, Tensor]:  # noqa: ARG001 - one signature
    return _results(q, v)


@torch.library.custom_op("attnbench::sparse_attention_triton_backward", mutates_args=())
def _backward(inputs: list[Tensor], kept: list[Tensor], g: Tensor, pattern: str, causal: bool) -> tuple[Tensor, Tensor, Tensor]:
    return pull_back(plan(tuple(inputs), pattern, causal), inputs, kept, g)


@_backward.register_fake
def _fake_backward(
    inputs: list[Tensor],
    kept: list[Tensor],  # noqa: ARG001 - one signature
    g: Tensor,  # noqa: ARG001
    pattern: str,  # noqa: ARG001
    causal: bool,  # noqa: ARG001
) -> tuple[Tensor, Tensor, Tensor]:
    dq, dk, dv = (torch.empty_like(_dense(x)) for x in inputs)
    return dq, dk, dv


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:  # noqa: ANN401 - torch's own bag
    q, k, v, ctx.pattern, ctx.causal = inputs
    ctx.save_for_backward(q, k, v, *output)
    ctx.mark_non_differentiable(output[1])
    # otherwise torch fills zeros for what was not differentiated
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, g: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own bag
    q, k, v, o, logsumexp = ctx.saved_tensors
    return *_backward([q, k, v], [o, logsumexp], g, ctx.pattern, ctx.causal), None, None


sparse_attention.register_autograd(_differentiate, setup_context=_keep)


def _take_in(whole: tuple[Tensor, Tensor], parts: tuple[Tensor, Tensor], job: Job) -> None:
    """Merge outputs of shares [S, B, heads, ., M] and their logsumexp into the first tokens of these heads."""
    (o, logsumexp), heads, some = whole, job.heads.long(), slice(parts[1].shape[-1])
    numbers = torch.cat([logsumexp[:, heads, some].unsqueeze(0), parts[1]])
    top = numbers.amax(0)
    weights = (numbers - top).exp2_().unsqueeze(-1)
    total = weights.sum(0)
    o[:, heads, some] = ((weights[0] * o[:, heads, some] + (weights[1:] * parts[0]).sum(0)) / total).to(o.dtype)
    logsumexp[:, heads, some] = top + total.squeeze(-1).log2()


def _add(x: Tensor, parts: Tensor, job: Job) -> None:
    """Add results of shares [S, B, heads, ., width] to the first tokens of these heads."""
    heads, some = job.heads.long(), slice(parts.shape[-2])
    x[:, heads, some] = (x[:, heads, some] + parts.sum(0)).to(x.dtype)


def _dense(x: Tensor) -> Tensor:
    """Make the last dimension dense, copying only where it is not."""
    return x if x.stride(-1) == 1 else x.contiguous()


def _results(q: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Allocate o [B, H, N, M] and the logsumexp [B, H, N]."""
    shape = q.shape[:3]
    return q.new_empty(*shape, v.shape[-1]), q.new_empty(shape, dtype=torch.float32)


def _device(x: Tensor) -> AbstractContextManager[object]:
    """Make the device of x current, on which Triton launches."""
    return torch.cuda.device(x.device) if x.is_cuda else nullcontext()
