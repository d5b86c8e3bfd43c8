"""Evicts a GPU's L2 cache, so that a `cold` timing is cold."""

from typing import Any

import torch


class CacheFlush:
    """Overwrites a buffer of at least twice the L2 cache each time it is called."""

    def __init__(self, device: str, cuda: Any = torch.cuda) -> None:  # noqa: ANN401 - the module, or a stub of it
        l2 = int(getattr(cuda.get_device_properties(device), "L2_cache_size", 0)) or 64 * 2**20
        self.buffer = torch.empty(2 * l2, dtype=torch.int8, device="cpu" if cuda is not torch.cuda else device)

    def __call__(self) -> None:
        """Queue the overwrite on the current stream."""
        self.buffer.zero_()
