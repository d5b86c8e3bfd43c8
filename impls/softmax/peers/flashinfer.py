"""Softmax attention by FlashInfer, the kernels of serving engines.

B batch, H heads, K heads of k and v, N tokens, S keys, D width of queries, keys and values.
"""

from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from attnbench.api import HALF, Cell, Cost, Layout, Problem, Scalar, State, Tier, Workload

from ...partial.cache import KvCache
from ..cached import CachedSoftmax
from ..work import cost, fused_flops, refuse_parameters

_WORKSPACE = 128 * 2**20
"""Bytes that the package asks for."""


class FlashInferSoftmax(CachedSoftmax):
    """The batched kernels of the package flashinfer: one for whole sequences, one for a token of each against its cache.

    Ye et al. 2025. In decoding each sequence is one page, as long as the cache, so that the cache is not copied. The package
    plans how work is shared out for given lengths, once for all layers of a model: here at the first call with these lengths,
    whose time it is part of. No backward.
    """

    paper = "arXiv:2501.01005"
    tier = Tier.LIBRARY
    layout = Layout.BNHD
    requires = ("flashinfer-python>=0.5",)
    devices = ("cuda",)
    dtypes = HALF
    one_width = True
    masks = False
    widths = (64, 256)

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        # a package that is missing should be noticed here and not in the first call
        import_module("flashinfer")
        self._wrappers: dict[str, Any] = {}
        self._planned: dict[str, tuple[object, ...]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Leave out of a copy, by which a method is checked, the package's wrappers, which cannot be copied."""
        state: dict[str, Any] = super().__getstate__()  # type: ignore[no-untyped-call]
        return {**state, "_wrappers": {}, "_planned": {}}

    @classmethod
    def keeps_scores(cls, problem: Problem) -> bool:  # noqa: ARG003 - whatever the problem
        """Return False: a fused kernel keeps none."""
        return False

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Refuse a backward, and widths that it has no kernels for."""
        if cell.workload.learns:
            return "the package has no backward"
        D = cell.problem.D
        return None if D in {64, 128, 256} else f"its kernels are for widths of 64, 128 and 256: D={D}"

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Compute the cost of a fused kernel that skips what a causal call hides. Raises TypeError on any parameter."""
        refuse_parameters(params)
        return cost(problem, workload, executed=fused_flops(problem, workload))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, *, causal: bool, key_mask: Tensor | None = None) -> Tensor:
        """Attend, all sequences one after the other in one row."""
        assert key_mask is None
        (B, H, N, D), (kv_heads, S) = q.shape, k.shape[1:3]
        wrapper = self._plan("BatchPrefillWithRaggedKVCacheWrapper", q, (B, N, S), (H, kv_heads, D), causal=causal)
        q, k, v = (x.transpose(1, 2).flatten(0, 1) for x in (q, k, v))
        o: Tensor = wrapper.run(q, k, v)
        return o.view(B, N, H, D).transpose(1, 2)

    def step(self, q: Tensor, k: Tensor, v: Tensor, *, state: State) -> tuple[Tensor, State]:
        """Append one key and value, and attend to all of them. Raises ValueError beyond the capacity."""
        cache: KvCache = state.then(k, v)
        B, H, _, D = q.shape
        kv_heads, capacity = k.shape[1], cache.k.shape[2]
        wrapper = self._plan("BatchDecodeWithPagedKVCacheWrapper", q, (B, 1, cache.length), (H, kv_heads, D, capacity))
        o: Tensor = wrapper.run(q.squeeze(2), (cache.k, cache.v))
        return o.unsqueeze(2), cache

    def _plan(self, name: str, q: Tensor, lengths: tuple[int, ...], sizes: tuple[int, ...], **causal: bool) -> Any:  # noqa: ANN401
        """Return the package's wrapper of that name, planned for these sequences, tokens and keys, and sizes.

        Tensors are made only to plan: to copy them to the device, or to read them there, is what no CUDA graph can hold.
        """
        kinds = {"sm_scale": self.scale, "q_data_type": q.dtype, "kv_data_type": q.dtype, **causal}
        key, paged = (*lengths, *sizes, *kinds.values()), "Paged" in name
        if name not in self._wrappers:
            workspace = torch.zeros(_WORKSPACE, dtype=torch.uint8, device=q.device)
            # the package's kernels for a token of many heads of q on each of k are those that use tensor cores
            more = {"use_tensor_cores": True} if paged and sizes[0] // sizes[1] >= 4 else {}
            self._wrappers[name] = getattr(import_module("flashinfer"), name)(workspace, "HND" if paged else "NHD", **more)
        if self._planned.get(name) != key:
            B, N, S = lengths
            starts = torch.arange(B + 1, dtype=torch.int32)
            pages = (starts, starts[:B].to(q.device), torch.full((B,), S, dtype=torch.int32)) if paged else ()
            self._wrappers[name].plan(*(pages or (starts * N, starts * S)), *sizes, **kinds)
            self._planned[name] = key
        return self._wrappers[name]
