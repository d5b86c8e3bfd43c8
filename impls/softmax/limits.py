"""What each backend of `F.scaled_dot_product_attention` takes, according to torch's dispatcher.

D query/key width, M value width. From aten/src/ATen/native/transformers/cuda/sdp_utils.cpp. What depends on the GPU model (its
generation, cuDNN's version, deterministic mode) is left to torch, which raises RuntimeError.
"""

from attnbench.api import Cell, DType, Problem, Workload

_HALF = (DType.FLOAT16, DType.BFLOAT16)


def flash(cell: Cell) -> str | None:
    """Refuse different widths everywhere, and on CUDA also 32 bits and more, widths above 256, and masks."""
    p = cell.problem
    if p.M != p.D:
        return f"flash takes values as wide as keys: M={p.M} must equal D={p.D}"
    if not _on_cuda(cell):
        return None
    if p.dtype not in _HALF:
        return f"on CUDA flash computes in float16 and bfloat16, not in {p.dtype}"
    if p.D > 256:
        return f"on CUDA flash takes widths up to 256: D={p.D}"
    return "on CUDA flash takes no mask, so there can be no padding" if p.padding else None


def efficient(cell: Cell) -> str | None:
    """Refuse CPUs, float64, shared heads, and widths that are not aligned for tensor cores."""
    p = cell.problem
    if not _on_cuda(cell):
        return "torch has no memory-efficient kernel on a CPU"
    if p.dtype is DType.FLOAT64:
        return "the memory-efficient kernel computes in float32, bfloat16 and float16"
    if p.kv_heads != p.H:
        return "the memory-efficient kernel takes as many heads of k and v as of q: kv_heads must equal H"
    return _misaligned(p, 8 if p.dtype in _HALF else 4)


def cudnn(cell: Cell) -> str | None:
    """Refuse CPUs, 32 bits and more, widths that do not fit, and a single key."""
    p = cell.problem
    if not _on_cuda(cell):
        return "torch has no cuDNN kernel on a CPU"
    if p.dtype not in _HALF:
        return f"cuDNN's attention computes in float16 and bfloat16, not in {p.dtype}"
    if p.N == 1 or cell.workload is Workload.DECODE_TOTAL:
        return "cuDNN's attention takes no single key" + ("" if p.N == 1 else ", and the first step has one")
    if cell.workload is Workload.DECODE and p.N < 4:
        return "cuDNN's attention takes no single key, which so short a prompt may have"
    return _misaligned(p, 8) or _too_wide_for_cudnn(p, trains=cell.workload is Workload.FORWARD_BACKWARD)


def _too_wide_for_cudnn(p: Problem, *, trains: bool) -> str | None:
    widest = max(p.D, p.M)
    if widest > 256:
        return f"cuDNN's attention takes widths up to 256: D={p.D}, M={p.M}"
    if trains and widest > 128 and (p.D, p.M) not in {(192, 128), (256, 256)}:
        return f"cuDNN's backward takes widths up to 128, 192 with M=128, or 256: D={p.D}, M={p.M}"
    return None


def _misaligned(p: Problem, multiple: int) -> str | None:
    return f"widths must be multiples of {multiple}: D={p.D}, M={p.M}" if p.D % multiple or p.M % multiple else None


def _on_cuda(cell: Cell) -> bool:
    return cell.device_kind == "cuda"
