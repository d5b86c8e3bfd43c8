"""The limits of each backend of `F.scaled_dot_product_attention`, by torch's dispatcher, and of a package for some GPUs.

D query/key width, M value width. From aten/src/ATen/native/transformers/cuda/sdp_utils.cpp. What of torch's own depends on the
GPU model (its generation, cuDNN's version, deterministic mode) is left to torch, which raises RuntimeError.
"""

import torch

from attnbench.api import HALF, Cell, Problem, Workload


def flash(cell: Cell) -> str | None:
    """Refuse on CUDA 32 bits and more, widths above 256, and masks."""
    p = cell.problem
    if cell.device_kind != "cuda":
        return None
    if p.dtype not in HALF:
        return f"on CUDA flash computes in float16 and bfloat16, not in {p.dtype}"
    if p.D > 256:
        return f"on CUDA flash takes widths up to 256: D={p.D}"
    return "on CUDA flash takes no mask, so there can be no padding" if p.padding else None


def cudnn(cell: Cell) -> str | None:
    """Refuse a single key, and widths that do not fit."""
    p, widest = cell.problem, max(cell.problem.D, cell.problem.M)
    if p.N == 1 or cell.workload is Workload.DECODE_TOTAL:
        return "cuDNN's attention takes no single key" + ("" if p.N == 1 else ", and the first step has one")
    if cell.workload is Workload.DECODE and p.N < 4:
        return "cuDNN's attention takes no single key, which so short a prompt may have"
    if cell.workload is Workload.FORWARD_BACKWARD and widest > 128 and (p.D, p.M) not in {(192, 128), (256, 256)}:
        return f"cuDNN's backward takes widths up to 128, 192 with M=128, or 256: D={p.D}, M={p.M}"
    return misaligned(p, 8)


def misaligned(p: Problem, multiple: int) -> str | None:
    """Refuse widths that are not aligned for tensor cores."""
    return f"widths must be multiples of {multiple}: D={p.D}, M={p.M}" if p.D % multiple or p.M % multiple else None


def generation(cell: Cell) -> int:
    """Return the major compute capability of the cell's GPU; 0 where none is here."""
    here = cell.device_kind == "cuda" and torch.cuda.is_available()
    return torch.cuda.get_device_capability(cell.device)[0] if here else 0


def other_generation(cell: Cell, generations: tuple[int, ...]) -> str | None:
    """Refuse a GPU whose major compute capability is none of these, if there are some, and a GPU is here."""
    major, names = generation(cell), " and ".join(f"{each}.x" for each in generations)
    if not names or major in {0, *generations}:
        return None
    return f"here it is for compute capability {names}, not for {major}.x"
