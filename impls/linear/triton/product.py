"""Causal linear attention through the Triton kernels: their arguments, and how they are differentiated.

B batch, H heads, N tokens, D query/key width, M value width, S segments (triton/tuning.py). Importing this needs triton.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, cast

import torch
import triton  # type: ignore[import-untyped, unused-ignore]
import triton.language as tl  # type: ignore[import-untyped, unused-ignore]
from torch import Tensor

from ...partial.tiles import PROGRAMS, padded
from . import kernels as triton_kernels
from .tuning import Arithmetic, Blocks, Cut, Launch, arithmetic, blocks, cut, splits

_SCANNED = 4096  # numbers that one program of the scan holds


@dataclass(frozen=True)
class Plan:
    """Everything that launches take besides tensors, for one problem."""

    B: int
    H: int
    N: int
    D: int
    M: int
    phi: str
    kind: Arithmetic
    operand: tl.dtype
    blocks: Blocks
    cut: Cut

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the whole numbers that every walking kernel takes."""
        return self.H, self.N, self.cut.tokens, self.cut.segments

    def constants(self, how: Launch, width: int) -> dict[str, Any]:
        """Return what a walking kernel is compiled for, where its result has `width` columns."""
        widths = {"D": self.D, "M": self.M, "BD": padded(self.D), "BM": padded(self.M)}
        blocks = {"L": how.chunk, "BO": min(how.columns, padded(width)), "num_warps": how.warps, "num_stages": how.stages}
        products = {"KIND": self.kind, "OPERAND": self.operand, "PRECISION": "tf32" if self.kind == "tf32" else "ieee"}
        # fusion is asked for explicitly, since the default differs between versions of Triton
        return {**widths, **blocks, **products, "PHI": self.phi, "enable_fp_fusion": True}


def plan(q: Tensor, v: Tensor, phi: str, chosen: Blocks | None = None, kind: Arithmetic | None = None) -> Plan:
    """Plan the launches for tensors [B, H, N, D] and [B, H, N, M]; blocks are from the table unless given.

    `kind` is what the forward computed in, for its backward: torch's matmul precision may have changed since.
    """
    (B, H, N, D), M, kind = q.shape, v.shape[-1], kind or arithmetic(q.dtype)
    chosen = chosen or blocks(D, M, kind)
    # tensors on a CPU are for Triton's interpreter, whose products of bfloat16 are wrong
    operand = tl.bfloat16 if kind == "bf16" and q.device.type != "cpu" else tl.float32
    walks = B * H * splits(M, chosen.attend)
    return Plan(B, H, N, D, M, phi, kind, operand, chosen, cut(walks, N))


def step_constants(programs: int, R: int, D: int, M: int, phi: str) -> dict[str, Any]:
    """Return what a step is compiled for, with R queries to a key.

    On an H100, at D = M = 128 with 4 queries to a key, 8 programs were faster by eight warps (11.0 µs for 12.7), and 512, which
    fill it, by four (42 for 51).
    """
    widths = {"D": D, "M": M, "BD": padded(D), "BM": padded(M)}
    most = 8 if programs < PROGRAMS else 4
    warps = max(1, min(most, widths["BD"] * widths["BM"] // 1024))
    return {"R": R, **widths, "PHI": phi, "num_warps": warps, "enable_fp_fusion": True}


def attend(p: Plan, q: Tensor, k: Tensor, v: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Compute o [B, H, N, M], the denominators and the states between segments."""
    q, k, v = _dense(q), _dense(k), _dense(v)
    o, denominators, states = _results(p, v)
    with _device(q):
        _states(p, (k, v), (denominators, denominators), states, reverse=False)
        arguments = (q, k, v, o, denominators, states, eps)
        _walk(triton_kernels.attend_kernel, p, p.blocks.attend, arguments, (q, k, v, o))
    return o, denominators, states


def pull_back(p: Plan, inputs: list[Tensor], kept: list[Tensor], g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute dq, dk and dv from dL/do: a walk forward for dq, and from the end for dk and dv; no atomics.

    Katharopoulos et al. 2020, eq. 13-15. `kept` is what `attend` returned.
    """
    (q, k, v), (o, denominators, states), g = (_dense(x) for x in inputs), kept, _dense(g)
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    coefficients, after = torch.empty_like(denominators), torch.empty_like(states)
    with _device(q):
        of_queries = (q, k, v, o, g, denominators, coefficients, states, dq)
        _walk(triton_kernels.queries_kernel, p, p.blocks.queries, of_queries, (q, k, v, o, g, dq))
        _states(p, (q, g), (denominators, coefficients), after, reverse=True)
        of_keys = (q, k, v, g, denominators, coefficients, after, dk)
        _walk(triton_kernels.keys_kernel, p, p.blocks.keys, of_keys, (q, k, v, g, dk))
        _walk(triton_kernels.values_kernel, p, p.blocks.values, (q, k, g, denominators, after, dv), (q, k, g, dv))
    return dq, dk, dv


@torch.library.custom_op("attnbench::causal_linear_attention_triton", mutates_args=())
def causal_linear_attention(q: Tensor, k: Tensor, v: Tensor, phi: str, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Attend: [B, H, N, D], [B, H, N, D], [B, H, N, M] -> o [B, H, N, M]; also the denominators and states for the backward.

    Katharopoulos et al. 2020, eq. 9-12. Differentiable once. phi is elu_plus_one, relu or squared_relu.
    """
    return attend(plan(q, v, phi), q, k, v, eps)


@causal_linear_attention.register_fake
def _fake(q: Tensor, k: Tensor, v: Tensor, phi: str, eps: float) -> tuple[Tensor, Tensor, Tensor]:  # noqa: ARG001 - one signature
    return _results(plan(q, v, phi), _dense(v))


@torch.library.custom_op("attnbench::causal_linear_attention_triton_backward", mutates_args=())
def _backward(inputs: list[Tensor], kept: list[Tensor], g: Tensor, phi: str, kind: str) -> tuple[Tensor, Tensor, Tensor]:
    return pull_back(plan(inputs[0], inputs[2], phi, kind=cast("Arithmetic", kind)), inputs, kept, g)


@_backward.register_fake
def _fake_backward(
    inputs: list[Tensor],
    kept: list[Tensor],  # noqa: ARG001 - one signature
    g: Tensor,  # noqa: ARG001
    phi: str,  # noqa: ARG001
    kind: str,  # noqa: ARG001
) -> tuple[Tensor, Tensor, Tensor]:
    dq, dk, dv = (torch.empty_like(_dense(x)) for x in inputs)
    return dq, dk, dv


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:  # noqa: ANN401 - torch's own bag
    q, k, v, ctx.phi, _ = inputs
    ctx.kind = arithmetic(q.dtype)
    ctx.save_for_backward(q, k, v, *output)
    ctx.mark_non_differentiable(*output[1:])
    # otherwise torch fills zeros for what was not differentiated
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, g: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own bag
    q, k, v, o, denominators, states = ctx.saved_tensors
    return *_backward([q, k, v], [o, denominators, states], g, ctx.phi, ctx.kind), None, None


causal_linear_attention.register_autograd(_differentiate, setup_context=_keep)


@torch.library.custom_op("attnbench::causal_linear_step_triton", mutates_args=("sums",))
def step(q: Tensor, k: Tensor, v: Tensor, sums: Tensor, phi: str, eps: float) -> Tensor:
    """Attend one token, and add it to sums [B K, D, M + 1]: [B, H, 1, D], [B, K, 1, D], [B, K, 1, M] -> [B, H, 1, M].

    Katharopoulos et al. 2020, eq. 18-20; K heads of keys, a program each.
    """
    q, k, v = _dense(q), _dense(k), _dense(v)
    o = v.new_empty(*q.shape[:3], v.shape[-1])
    heads, shared = k.shape[1], q.shape[1] // k.shape[1]
    strides = [stride for x in (q, k, v) for stride in x.stride()[:2]]
    with _device(q):
        programs = k.shape[0] * heads
        constants = step_constants(programs, shared, q.shape[-1], v.shape[-1], phi)
        triton_kernels.step_kernel[programs,](q, k, v, o, sums, eps, heads, *strides, **constants)
    return o


@step.register_fake
def _fake_step(q: Tensor, k: Tensor, v: Tensor, sums: Tensor, phi: str, eps: float) -> Tensor:  # noqa: ARG001 - one signature
    return v.new_empty(*q.shape[:3], v.shape[-1])


def _states(p: Plan, rows: tuple[Tensor, Tensor], numbers: tuple[Tensor, Tensor], states: Tensor, *, reverse: bool) -> None:
    """Fill `states` with the state between each segment and the next one, of (k, v), or in reverse of (q, g), d and c."""
    places, how = p.cut.segments - 1, p.blocks.sums
    if not places:
        return
    arguments = (*rows, *numbers, states, *p.sizes, *_strides(*rows))
    grid = (p.B * p.H * places * splits(p.M, how),)
    triton_kernels.sums_kernel[grid](*arguments, **p.constants(how, p.M), REVERSE=int(reverse))
    if places > 1:
        width, padded_places = states.shape[-1], triton.next_power_of_2(places)
        columns = max(16, _SCANNED // padded_places)
        grid = (p.B * p.H * triton.cdiv(width, columns),)
        triton_kernels.scan_kernel[grid](states, width, places, PLACES=padded_places, BLOCK=columns, REVERSE=reverse)


def _walk(kernel: Any, p: Plan, how: Launch, arguments: tuple[Any, ...], strided: tuple[Tensor, ...]) -> None:  # noqa: ANN401
    """Launch a program for each block of columns of each segment of each head; the last of `strided` is the result."""
    width = strided[-1].shape[-1]
    grid = (p.B * p.H * p.cut.segments * splits(width, how),)
    kernel[grid](*arguments, *p.sizes, *_strides(*strided), **p.constants(how, width))


def _strides(*tensors: Tensor) -> list[int]:
    """Return each tensor's strides over batch, heads and tokens."""
    return [stride for x in tensors for stride in x.stride()[:3]]


def _dense(x: Tensor) -> Tensor:
    """Make the last dimension dense, copying only where it is not."""
    return x if x.stride(-1) == 1 else x.contiguous()


def _results(p: Plan, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Allocate o, the denominators [B, H, N], and the states between segments [BH, S - 1, D M + D]."""
    denominators = v.new_empty(p.B, p.H, p.N, dtype=torch.float32)
    return torch.empty_like(v), denominators, v.new_empty(p.B * p.H, p.cut.segments - 1, p.D * (p.M + 1), dtype=torch.float32)


def _device(x: Tensor) -> AbstractContextManager[object]:
    """Make the device of x current, on which Triton launches."""
    return torch.cuda.device(x.device) if x.is_cuda else nullcontext()
