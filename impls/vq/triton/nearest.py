"""The nearest code of each key through one Triton kernel, which keeps no distances.

B batch, H heads, N tokens, S codes, D key width. Importing this needs triton.
"""

from typing import Any

import torch
from torch import Tensor

from .kernels import nearest_kernel
from .product import current, dense, dtypes_of_products, strides
from .tuning import Launch, arithmetic, blocks, fitted, padded


@torch.library.custom_op("attnbench::nearest_codes_triton", mutates_args=())
def nearest_codes(k: Tensor, vectors: Tensor) -> Tensor:
    """Compute argmin_s ‖k - c_s‖²: [B, H, N, D] and float32 [H, S, D] -> int64 [B, H, N]; not differentiable.

    In float32, whose products follow torch's float32 matmul precision. Of equal distances the first code is taken.
    """
    return assigned(k, vectors)


@nearest_codes.register_fake
def _fake(k: Tensor, vectors: Tensor) -> Tensor:  # noqa: ARG001 - one signature
    return k.new_empty(k.shape[:3], dtype=torch.int64)


def assigned(k: Tensor, vectors: Tensor, chosen: Launch | None = None) -> Tensor:
    """Launch a program for each tile of keys of each head; the launch is from the table unless given."""
    (k,), (B, H, N, _), S = dense([k]), k.shape, vectors.shape[1]
    codes = k.new_empty(B, H, N, dtype=torch.int64)
    half_norms, parts = vectors.square().sum(-1).div_(2), in_parts(vectors, k.dtype)
    about = constants(k, N, S, chosen)
    with current(k):
        nearest_kernel[B * H * -(-N // about["BK"]),](k, parts, half_norms, codes, H, N, S, *strides(k), **about)
    return codes


def constants(k: Tensor, N: int, S: int, chosen: Launch | None = None) -> dict[str, Any]:
    """Return what the kernel is compiled for."""
    D = k.shape[-1]
    how = fitted(chosen or blocks(D, D, arithmetic(k.dtype)).attend, N, S)
    tiles = {"D": D, "BD": padded(D), "BK": how.own, "BS": how.other, "PARTS": parts_of(k.dtype)}
    options = {"num_warps": how.warps, "num_stages": how.stages, "enable_fp_fusion": True}
    return {**tiles, **dtypes_of_products(k), **options}


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
