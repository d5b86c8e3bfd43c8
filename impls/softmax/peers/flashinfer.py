"""Decoding by FlashInfer, the attention kernels of serving engines.

B batch, H heads, K heads of k and v, S keys, D width of queries, keys and values.
"""

from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from attnbench.api import HALF, Cell, Problem, State, Workload

from ...partial.cache import KvCache
from ..library.sdpa import SdpaSoftmax

_WORKSPACE = 128 * 2**20
"""Bytes that the package asks for."""


class FlashInferSoftmax(SdpaSoftmax):
    """`BatchDecodeWithPagedKVCacheWrapper` of the package flashinfer: one token of each sequence against its cache.

    Ye et al. 2025. Each sequence is one page, as long as the cache, so that the cache is not copied. The package plans how work
    is shared out for given lengths, once for all layers of a model: here at the first step of a length, which is part of its
    time. The prompt is attended by torch's own kernels, as in `softmax.sdpa`.
    """

    paper = "arXiv:2501.01005"
    requires = ("flashinfer-python>=0.5",)
    devices = ("cuda",)
    dtypes = HALF
    one_width = True
    packs = False
    masks = False
    widths = (64, 256)

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self._package: Any = import_module("flashinfer")
        self._planned: tuple[int, int, int] | None = None

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Refuse what is not decoding, and widths that it has no kernels for."""
        if cell.workload not in {Workload.DECODE, Workload.DECODE_TOTAL}:
            return "it is measured in decoding; softmax.sdpa attends whole sequences"
        D = cell.problem.D
        return None if D in {64, 128, 256} else f"its kernels are for widths of 64, 128 and 256: D={D}"

    def step(self, q: Tensor, k: Tensor, v: Tensor, *, state: State) -> tuple[Tensor, State]:
        """Append one key and value, and attend to all of them. Raises ValueError beyond the capacity."""
        cache: KvCache = state.then(k, v)
        o: Tensor = self._run(q, cache).run(q.squeeze(2), (cache.k, cache.v))
        return o.unsqueeze(2), cache

    def _run(self, q: Tensor, cache: KvCache) -> Any:  # noqa: ANN401 - the package has no types
        """Return the package's wrapper, planned for caches of this length."""
        B, H, _, D = q.shape
        kv_heads, capacity = cache.k.shape[1:3]
        if self._planned is None:
            workspace = torch.zeros(_WORKSPACE, dtype=torch.uint8, device=q.device)
            # the package's kernels for many query heads a key head are those that use tensor cores
            make, grouped = self._package.BatchDecodeWithPagedKVCacheWrapper, H // kv_heads >= 4
            self._wrapper = make(workspace, "HND", use_tensor_cores=grouped)
        if self._planned != (B, capacity, cache.length):
            each = torch.arange(B + 1, dtype=torch.int32)
            lengths = torch.full((B,), cache.length, dtype=torch.int32)
            kinds = {"q_data_type": q.dtype, "kv_data_type": cache.k.dtype}
            self._wrapper.plan(each, each[:B].to(q.device), lengths, H, kv_heads, D, capacity, sm_scale=self.scale, **kinds)
            self._planned = B, capacity, cache.length
        return self._wrapper
