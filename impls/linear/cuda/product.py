"""Causal linear attention by the CUDA kernels as torch operators: differentiable, and opaque to torch.compile.

B batch, H heads, N tokens, D query/key width, M value width.
"""

from typing import Any

import torch
from torch import Tensor

from ..eager.segments import accumulator
from .compiling import Variant
from .launch import Launcher
from .layout import Pass


@torch.library.custom_op("attnbench::causal_linear_forward", mutates_args=())
def causal_linear_forward(q: Tensor, k: Tensor, v: Tensor, phi: str, eps: float) -> tuple[Tensor, Tensor]:
    """Compute Σ_{j≤i} φ(q_i)·φ(k_j) v_j / d_i, and d_i = Σ_{j≤i} φ(q_i)·φ(k_j) + eps, in float32.

    [B, H, N, D], [B, H, N, D], [B, H, N, M] -> [B, H, N, M], [B, H, N]. Katharopoulos et al. 2020, Algorithm 1. Differentiable
    once. Raises ValueError where the tensors are not on a CUDA device, RuntimeError where the kernels do not compile.
    """
    q, k, v = _aligned(q), _aligned(k), _aligned(v)
    out, denominators = _results(q, k, v, phi, eps)
    _launcher(q, v, phi).walk(Pass.FORWARD, (q, k, v), (denominators,), out, eps)
    return out, denominators


@causal_linear_forward.register_fake
def _results(q: Tensor, k: Tensor, v: Tensor, phi: str, eps: float) -> tuple[Tensor, Tensor]:  # noqa: ARG001 - one signature
    return v.new_empty(v.shape), q.new_empty(q.shape[:3], dtype=accumulator(q.dtype))


@torch.library.custom_op("attnbench::causal_linear_backward", mutates_args=())
def causal_linear_backward(
    g: Tensor, inputs: list[Tensor], out: Tensor, denominators: Tensor, phi: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute dL/dq, dL/dk and dL/dv from g = dL/do and (q, k, v), with every state computed again.

    Katharopoulos et al. 2020, eq. 13-15.
    """
    g, (q, k, v) = _aligned(g), map(_aligned, inputs)
    dq, dk, dv = _gradients(g, [q, k, v], out, denominators, phi)
    run, deltas = _launcher(q, v, phi), torch.empty_like(denominators)
    run.contract(g, out, deltas)
    run.walk(Pass.QUERIES, (g, v, k, q), (denominators, deltas), dq)
    run.walk(Pass.KEYS, (v, g, q, k), (denominators, deltas), dk)
    run.walk(Pass.VALUES, (k, q, g), (denominators, deltas), dv)
    return dq, dk, dv


@causal_linear_backward.register_fake
def _gradients(
    g: Tensor,  # noqa: ARG001 - one signature
    inputs: list[Tensor],
    out: Tensor,  # noqa: ARG001
    denominators: Tensor,  # noqa: ARG001
    phi: str,  # noqa: ARG001
) -> tuple[Tensor, Tensor, Tensor]:
    dq, dk, dv = (x.new_empty(x.shape) for x in inputs)
    return dq, dk, dv


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:  # noqa: ANN401 - torch's own bag
    q, k, v, ctx.phi, _ = inputs
    ctx.save_for_backward(q, k, v, *output)
    ctx.mark_non_differentiable(output[1])
    # otherwise torch fills zeros for the gradient of the denominators, in each backward
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, g: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own bag
    q, k, v, out, denominators = ctx.saved_tensors
    return *causal_linear_backward(g, [q, k, v], out, denominators, ctx.phi), None, None


causal_linear_forward.register_autograd(_differentiate, setup_context=_keep)


def _launcher(q: Tensor, v: Tensor, phi: str) -> Launcher:
    B, H, N, D = q.shape
    return Launcher(Variant(D, v.shape[-1], q.dtype, phi), q.device, B * H, N)


def _aligned(x: Tensor) -> Tensor:
    """Make x contiguous and aligned to 16 bytes, as the kernels fetch it; copies only where needed."""
    x = x.contiguous()
    return x.clone() if x.data_ptr() % 16 else x
