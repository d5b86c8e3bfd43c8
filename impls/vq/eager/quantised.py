"""Dense softmax over quantised keys: what Transformer-VQ computes, in quadratic time.

B or b batch, H heads of q, K of k and v, N or n tokens, D query/key width, M value width, S codes.
"""

import torch.nn.functional as F
from torch import Tensor

from attnbench.api import Cost, Problem, Scalar, State, Tier, Workload, dense_flops, io_bytes, nominal_flops, takes

from ...partial.cache import KvCache
from ..options import Quantisation
from ..quantised_keys import QuantisedKeys
from ..reference import Definition, quantised_attention, quantised_rows


class QuantisedSoftmax(QuantisedKeys):
    """`F.scaled_dot_product_attention` over quantised keys, the baseline of `vq.blockwise`, with the same output, in O(N²).

    Every key passes its gradient on through k̂, however old. Decodes with a cache of all k̂ and v. Parameters are those of
    `Quantisation`. Raises ValueError on bad parameters, TypeError on unknown ones.
    """

    tier = Tier.LIBRARY
    __signature__ = takes(Quantisation)

    def __init__(self, problem: Problem, **params: Scalar) -> None:
        super().__init__(problem, Quantisation(**params))  # type: ignore[arg-type]

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count the FLOPs of assigning codes and then of the cheapest backend, with both widths padded to one, and bytes.

        Steps also read the codebook and all k̂ and v up to their own, which they write. Raises TypeError or ValueError on bad
        parameters.
        """
        p, S = problem, Quantisation(**params).codes  # type: ignore[arg-type]
        steps = 1 if workload is Workload.DECODE else p.N
        assigning, nominal = 2.0 * p.B * p.kv_heads * steps * S * p.D, nominal_flops(p, workload)
        # a fused backward computes the scores again: five products for the forward's two
        attending = dense_flops(p) * 3.5 if workload is Workload.FORWARD_BACKWARD else nominal
        cached = {Workload.DECODE: p.N, Workload.DECODE_TOTAL: p.N * (p.N + 1) / 2}.get(workload, 0)
        codebook = p.kv_heads * S * p.D * 4.0 * (steps if workload.decodes else 1)
        return Cost(
            nominal_flops=nominal,
            exact_flops=nominal + assigning,
            executed_flops=attending * 2 * max(p.D, p.M) / (p.D + p.M) + assigning,
            traffic_bytes=io_bytes(p, workload) + codebook + cached * p.B * p.kv_heads * (p.D + p.M) * p.dtype.bytes,
        )

    def forward(self, q: Tensor, k: Tensor, v: Tensor, choices: Tensor | None = None) -> Tensor:
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M], codes int64 [B, K, N] or None -> [B, H, N, M], differentiable."""
        k_hat, _, _ = self.coded(k, choices)
        return _sdpa(self.normalised(q), k_hat, v, causal=self.problem.causal)

    def reference(self, q: Tensor, k: Tensor, v: Tensor, choices: Tensor | None = None) -> Tensor:
        """Compute the definition, with all keys in the window."""
        return quantised_attention(*self.as_defined(q, k, choices), v, Definition(None, self.problem.causal))

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor, choices: Tensor | None = None) -> Tensor:
        """Compute softmax of the queries `at` over the quantised keys, with codes [N]."""
        assert choices is not None
        definition = Definition(None, self.problem.causal)
        return quantised_rows(at, *self.head_as_defined(head, q, k, choices), v, definition)

    def prefill(
        self, q: Tensor, k: Tensor, v: Tensor, *, capacity: int, choices: Tensor | None = None
    ) -> tuple[Tensor, KvCache]:
        """Attend to the prompt causally and keep its k̂ and v. Raises ValueError where it does not fit."""
        k_hat, _, _ = self.coded(k, choices)
        state = KvCache.of(k_hat, v, capacity)
        if not q.shape[2]:
            return v.new_empty(*q.shape[:3], v.shape[3]), state
        return _sdpa(self.normalised(q), k_hat, v, causal=True), state

    def step(self, q: Tensor, k: Tensor, v: Tensor, *, state: KvCache, choices: Tensor | None = None) -> tuple[Tensor, KvCache]:
        """Append one k̂ and v, and attend to all of them. Raises ValueError beyond the capacity."""
        k_hat, _, _ = self.coded(k, choices)
        state = state.then(k_hat, v)
        return _sdpa(self.normalised(q), state.keys, state.values, causal=False), state

    def extend(self, *inputs: Tensor, state: State) -> tuple[Tensor, State]:
        """Append all k̂ and v, and attend to them and those before at once. Raises ValueError beyond the capacity."""
        q, k, v = inputs
        k_hat, _, _ = self.coded(k, None)
        cache: KvCache = state.then(k_hat, v)
        later = q.new_full((q.shape[2], q.shape[2]), float("-inf")).triu(1)
        hidden = F.pad(later, (cache.keys.shape[2] - q.shape[2], 0))
        return _sdpa(self.normalised(q), cache.keys, cache.values, causal=False, bias=hidden), cache


def _sdpa(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, bias: Tensor | None = None) -> Tensor:
    """Attend at one width: torch's fused CPU kernel takes no other, and the fallback would keep N² scores."""
    M, width = v.shape[-1], max(q.shape[-1], v.shape[-1])
    q, k, v = (x if x.shape[-1] == width else F.pad(x, (0, width - x.shape[-1])) for x in (q, k, v))
    grouped = q.shape[1] != k.shape[1]
    o: Tensor = F.scaled_dot_product_attention(q, k, v, bias, is_causal=causal, scale=1.0, enable_gqa=grouped)
    # slicing nothing would cost the backward a copy
    return o if width == M else o[..., :M]
