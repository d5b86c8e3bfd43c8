"""The beginnings of documents that lie one after the other in one row, in the form in which kernels take them."""

from functools import lru_cache
from itertools import accumulate

import torch
from torch import Tensor


@lru_cache(maxsize=64)
def borders(lengths: tuple[int, ...], device: torch.device, dtype: torch.dtype = torch.int32) -> Tensor:
    """Return the first token of each document, and the end of the last: [documents + 1] on the device.

    The same lengths give the same tensor, so that a call copies nothing to the device; kernels that cut each document into
    chunks keep their lists by its identity.
    """
    return torch.tensor(list(accumulate(lengths, initial=0)), dtype=dtype, device=device)
