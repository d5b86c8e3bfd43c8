"""How far rows are off, as a share of their own length, and how far they may be.

Errors of rounding are in proportion to a row, and rows of one output differ in length a hundredfold: the mean over many keys is
short. One bound for all, in proportion to the longest, would let the short ones be anything.
n rows, C width.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from attnbench.schema.cell import Cell, Precision
from attnbench.schema.problem import DType

_OWN_ERROR, _MOST = 4.0, 0.5
"""How many times as far as the definition in the method's own dtype a row may be off, and how far in no case."""
_ROUNDING = {DType.FLOAT64: 1e-9, DType.FLOAT32: 5e-5, DType.FLOAT16: 5e-3, DType.BFLOAT16: 3e-2}
"""How far a row may be off in any case: a few times what faithful implementations are."""
_ROUNDED_PRODUCTS = {Precision.HIGHEST: 0.0, Precision.HIGH: 1e-2, Precision.MEDIUM: 5e-2}
"""The same where torch may round the products of float32."""
_NUMBERS = 64
"""The length of so many numbers is no matter of luck: narrower rows are judged by the length of several."""


def tolerance(cell: Cell) -> float:
    """How far a row of this cell may be off, before the definition's own error is looked at."""
    dtype = cell.problem.dtype
    return max(_ROUNDING[dtype], _ROUNDED_PRODUCTS[cell.matmul_precision] if dtype is DType.FLOAT32 else 0.0)


def deviations(got: Tensor, want: Tensor) -> Tensor:
    """‖got - want‖ / ‖want‖ of each row, [n, C] both -> float64 [n]; infinite where a number is none, or 0 was right."""
    want = want.detach().double()
    error, length = (got.detach().double() - want).norm(dim=-1), _lengths(want)
    share = torch.where(error == 0, 0.0, error / length)
    return share.nan_to_num(nan=torch.inf, posinf=torch.inf)


def excused(allowed: float, own: Tensor) -> Tensor:
    """How far each row may be off where the definition itself, in the method's own dtype, is off by `own`."""
    return (_OWN_ERROR * own).nan_to_num(nan=0.0, posinf=0.0).clamp(allowed, max(allowed, _MOST))


def _lengths(want: Tensor) -> Tensor:
    """Of each row; of narrow ones the root mean square over it and its neighbours."""
    squares = want.square().sum(-1)
    together = min(-(-_NUMBERS // want.shape[-1]) // 2 * 2 + 1, 2 * len(want) + 1) if want.shape[-1] < _NUMBERS else 1
    if together > 1:
        padding = together // 2
        squares = F.avg_pool1d(squares[None], together, 1, padding, count_include_pad=False).squeeze(0)
    return squares.sqrt()
