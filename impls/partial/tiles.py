"""The cuts of the Triton kernels of every family: for how many programs, in which arithmetic, and in what widths."""

from typing import Literal

import torch

PROGRAMS = 264
"""Number of programs to aim at: two for each multiprocessor of an H100, constant so that sums group alike on every GPU."""
Arithmetic = Literal["half", "tf32", "ieee"]
"""Operands of the products: bfloat16 or float16; float32 rounded to tf32; float32 as it is."""


def arithmetic(dtype: torch.dtype) -> Arithmetic:
    """Choose the products for a dtype; float32 follows torch's float32 matmul precision."""
    if dtype is not torch.float32:
        return "half"
    return "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"


def padded(size: int) -> int:
    """Return the power of two that a width or block is computed in, at least 16, the least that tensor cores take."""
    return max(16, 1 << (size - 1).bit_length())
