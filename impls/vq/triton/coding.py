"""The coding before attention, by Triton: queries and keys are normalised, and keys become codes; no distance is kept.

B batch, H heads, N tokens, S codes, D query/key width. Importing this needs triton.
"""

from typing import Any

import torch
from torch import Tensor

from ...partial.tiles import arithmetic, padded
from ..eager.rms import EPS
from .coding_kernels import nearest_kernel, normalise_back_kernel, normalise_kernel, rows_kernel
from .product import current, dense, dtypes_of_products, strides
from .tuning import choosing, of_walk


@torch.library.custom_op("attnbench::rms_norm_triton", mutates_args=())
def normalise(x: Tensor, factor: float) -> Tensor:
    """Compute `factor` x / √(mean x² + 1e-6) over the last dimension of [B, H, N, D]; differentiable once."""
    (x,), y = dense([x]), x.new_empty(x.shape)
    B, H, N, _ = x.shape
    about = walk(x)
    with current(x):
        normalise_kernel[B * H * -(-N // about["BK"]),](x, y, H, N, *strides(x), factor, EPS=EPS, **about)
    return y


@normalise.register_fake
def _fake_normalise(x: Tensor, factor: float) -> Tensor:  # noqa: ARG001 - one signature
    return x.new_empty(x.shape)


@torch.library.custom_op("attnbench::rms_norm_triton_backward", mutates_args=())
def _normalise_back(x: Tensor, g: Tensor, factor: float) -> Tensor:
    (x, g), dx = dense([x, g]), x.new_empty(x.shape)
    B, H, N, _ = x.shape
    about = walk(x)
    with current(x):
        grid = (B * H * -(-N // about["BK"]),)
        normalise_back_kernel[grid](x, g, dx, H, N, *strides(x, g), factor, EPS=EPS, **about)
    return dx


@_normalise_back.register_fake
def _fake_normalise_back(x: Tensor, g: Tensor, factor: float) -> Tensor:  # noqa: ARG001 - one signature
    return x.new_empty(x.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ANN401, ARG001 - torch's own bag
    ctx.save_for_backward(inputs[0])
    ctx.factor = inputs[1]


def _differentiate(ctx: Any, g: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401 - torch's own bag
    return _normalise_back(*ctx.saved_tensors, g, ctx.factor), None


normalise.register_autograd(_differentiate, setup_context=_keep)


@torch.library.custom_op("attnbench::nearest_codes_triton", mutates_args=())
def nearest_codes(k: Tensor, vectors: Tensor) -> Tensor:
    """Compute argmin_s ‖k - c_s‖²: [B, H, N, D] and float32 [H, S, D] -> int64 [B, H, N]; not differentiable.

    In float32, whose products follow torch's float32 matmul precision. Of equal distances the first code is taken.
    """
    (k,), (B, H, N, _), S = dense([k]), k.shape, vectors.shape[1]
    codes = k.new_empty(B, H, N, dtype=torch.int64)
    half_norms, parts = vectors.square().sum(-1).div_(2), in_parts(vectors, k.dtype)
    about = constants(k, N, S)
    with current(k):
        nearest_kernel[B * H * -(-N // about["BK"]),](k, parts, half_norms, codes, H, N, S, *strides(k), **about)
    return codes


@nearest_codes.register_fake
def _fake_codes(k: Tensor, vectors: Tensor) -> Tensor:  # noqa: ARG001 - one signature
    return k.new_empty(k.shape[:3], dtype=torch.int64)


def constants(k: Tensor, N: int, S: int) -> dict[str, Any]:
    """Return what the kernel that chooses codes is compiled for."""
    D = k.shape[-1]
    how = choosing(D, N, S, arithmetic(k.dtype))
    tiles = {"D": D, "BD": padded(D), "BK": how.own, "BS": how.other, "PARTS": parts_of(k.dtype)}
    options = {"num_warps": how.warps, "num_stages": how.stages, "enable_fp_fusion": True}
    return {**tiles, **dtypes_of_products(k), **options}


def walk(x: Tensor) -> dict[str, Any]:
    """Return what a kernel without products is compiled for."""
    D = x.shape[-1]
    return {"D": D, "BD": padded(D), "BK": of_walk(D), "num_warps": 4, "enable_fp_fusion": True}


def parts_of(dtype: torch.dtype) -> int:
    """Count the numbers of this dtype whose sum has the digits of a float32."""
    return 1 if dtype is torch.float32 else 3


def in_parts(vectors: Tensor, dtype: torch.dtype) -> Tensor:
    """Write float32 codes as sums of numbers of another dtype, the smallest first: [H, S, D] -> [parts, H, S, D].

    Products of a part with a key of the same dtype are exact in float32, so that the sum of three is as good as a product in
    float32, and takes a fraction of its time on tensor cores.
    """
    parts, left = [], vectors
    for _ in range(parts_of(dtype)):
        parts.append(left.to(dtype))
        left = left - parts[-1].float()
    return torch.stack(parts[::-1])


@torch.library.custom_op("attnbench::rows_of_codes_triton", mutates_args=())
def rows_of_codes(codes: Tensor, codebook: Tensor) -> Tensor:
    """Look up c_z: int64 [B, H, N] and [H, S, D] -> [B, H, N, D]; not differentiable."""
    (B, H, N), S, codebook = codes.shape, codebook.shape[1], codebook.contiguous()
    rows = codebook.new_empty(B, H, N, codebook.shape[2])
    about = walk(codebook)
    with current(codes):
        rows_kernel[B * H * -(-N // about["BK"]),](codes, codebook, rows, H, N, S, *codes.stride(), **about)
    return rows


@rows_of_codes.register_fake
def _fake_rows(codes: Tensor, codebook: Tensor) -> Tensor:
    return codebook.new_empty(*codes.shape, codebook.shape[2])
