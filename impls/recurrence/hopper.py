"""The GPUs on which flash-linear-attention refuses the backward of its operators with decays."""

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

import torch
from packaging.version import Version

from attnbench.api import Cell, DType, Workload

_WRONG, _MENDED = Version("3.4"), Version("3.7.1")
_HOPPER = 9


def why_no_backward(cell: Cell, *, float32_states: bool = False) -> str | None:
    """Say why not, where Triton computes the backward wrongly: fla's issue 640, checked in its chunk_bwd_dqkwg.

    With tilelang installed the package uses that instead, but not where its states are float32 beside inputs of half precision.
    """
    instead = find_spec("tilelang") and (cell.problem.dtype is DType.FLOAT32 or not float32_states)
    if cell.workload is not Workload.FORWARD_BACKWARD or not torch.cuda.is_available() or instead:
        return None
    triton = _triton()
    if triton is None or not _WRONG <= triton < _MENDED or torch.cuda.get_device_capability(cell.device)[0] != _HOPPER:
        return None
    return f"its gated backward is wrong with Triton {triton} on Hopper GPUs, so the package refuses it; take Triton {_MENDED}"


def _triton() -> Version | None:
    try:
        return Version(version("triton"))
    except PackageNotFoundError:
        return None
