"""PaTH attention: positions are what the tokens between a query and a key make of it.

B batch, H heads, K heads of k and v, N, n tokens, D query/key width, M value width.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from attnbench.api import Attention, Cost, Problem, Projection, Scalar, State, Workload, default_scale, dense_flops

from ...partial.cache import KvCache
from ...partial.heads import of_each_head
from ...partial.softmax import Rule, attend, sums
from ..work import FLASH_BACKWARD, cache_bytes_moved, cost, refuse_parameters
from . import path_product
from .path_product import in_tiles, moved, path_attention


@dataclass(frozen=True)
class PathState:
    """Keys, as the last token's reflection left them, and values; float32 at least."""

    cache: KvCache

    @property
    def length(self) -> int:
        """Count the tokens so far."""
        return self.cache.length


class PathSoftmax(Attention):
    """softmax(A / √D) v with A_ij = q_iᵀ R_i R_{i-1} … R_{j+1} k_j over j ≤ i, where R_t = I - β_t w_t w_tᵀ.

    Yang et al. 2025, *PaTH Attention*, section 2, where 1/√D is not printed; in O(N² (D + M + D² / L)) time by tiles of L
    tokens, and O(N (D + L)) memory. Inputs are q, k, v, w [B, K, N, D] of length 1, and β [B, K, N] in (0, 2). How w and β
    are made from the tokens is not part of the attention.
    """

    paper = "arXiv:2505.16381"
    causal_only = True
    because = "a reflection lies between a token and those before it"
    decodes = True
    packs = True

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.scale = default_scale(problem)

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count softmax attention, the reflections within tiles, and what crosses them. Raises TypeError on any parameter."""
        refuse_parameters(params)
        p, L, trains = problem, min(path_product.TOKENS, problem.N), workload is Workload.FORWARD_BACKWARD
        plain = cost(p, workload, executed=0)
        seen = {Workload.DECODE: p.N - 1.0, Workload.DECODE_TOTAL: p.N * (p.N - 1) / 2}.get(workload, 0.0)
        exact = plain.exact_flops + p.B * p.kv_heads * 4.0 * p.D * seen
        attention = dense_flops(p) * ((2 + FLASH_BACKWARD) / 2 if trains else 1)
        # of a tile: six products of width D, one of L, the inverse by two sides of D and L, P; and the inverse itself
        tiles, products = -(-p.N // L), 2.0 * L * L * (7 * p.D + 2 * L) + 2.0 * L * p.D * p.D
        crossings, inverses = tiles * (tiles - 1.0) * L * p.D * p.D, tiles * L**3 * 2 / 3
        # the backward makes a tile again, and has two products for each
        moving = p.B * p.H * ((tiles * products + crossings) * (4 if trains else 1) + inverses * (2 if trains else 1))
        tokens = {Workload.DECODE: 1, Workload.FORWARD_BACKWARD: 3 * p.N}.get(workload, p.N)
        gates = p.B * p.kv_heads * p.dtype.bytes * tokens * (p.D + 1.0)
        # a step reads what is kept, in float32 at least, and writes all keys anew
        size, read = max(4, p.dtype.bytes), cache_bytes_moved(p, workload)
        kept = read * (size / p.dtype.bytes - 1) + p.B * p.kv_heads * size * seen * p.D
        return plain.model_copy(
            update={
                "exact_flops": exact,
                "executed_flops": exact if workload.decodes else attention + moving,
                "traffic_bytes": plain.traffic_bytes + gates + kept,
            }
        )

    @classmethod
    def projections(cls, problem: Problem) -> tuple[Projection, ...]:
        """Name q, k, v, and what the reflections and their strengths are made from."""
        p = problem
        return *super().projections(p), Projection("direction", p.kv_heads, p.D), Projection("strength", p.kv_heads, 1)

    @classmethod
    def admit(cls, problem: Problem, *raw: Tensor) -> tuple[Tensor, ...]:
        """Return q, k, v, w of length 1, and β = 2 σ(x)."""
        q, k, v, w, x = super().admit(problem, *raw)
        return q, k, v, F.normalize(w, dim=-1), 2 * x.sigmoid().squeeze(-1)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, w: Tensor, beta: Tensor) -> Tensor:  # type: ignore[override]
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M], [B, K, N, D], [B, K, N] -> [B, H, N, M]."""
        k, v, w, beta = of_each_head(q, k, v, w, beta)
        return path_attention(q, k, v, w, beta, self.scale)

    def reference(self, q: Tensor, k: Tensor, v: Tensor, w: Tensor, beta: Tensor) -> Tensor:  # type: ignore[override]
        """Move all keys by one token after the other, and score them as each query finds them."""
        k, v, w, beta = of_each_head(q, k, v, w, beta)
        keys, outputs = k[:, :, :0], []
        for i in range(q.shape[2]):
            w_i, q_i = w[:, :, i : i + 1], q[:, :, i : i + 1]
            keys = keys - beta[:, :, i, None, None] * (keys @ w_i.mT) * w_i
            keys = torch.cat((keys, k[:, :, i : i + 1]), 2)
            outputs.append((q_i @ keys.mT * self.scale).softmax(-1) @ v[:, :, : i + 1])
        return torch.cat(outputs, 2)

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor, w: Tensor, beta: Tensor) -> Tensor:  # type: ignore[override]  # noqa: ARG002 - all heads alike
        """Move the queries `at` back, token by token."""
        asks, scores = q[at], []
        for j in range(int(at.max()), -1, -1):
            scores.append(asks @ k[j])
            # a query is reflected by its own token before it meets an earlier one, and by no later token
            passes = (at >= j).to(q.dtype).unsqueeze(-1)
            asks = asks - passes * beta[j] * (asks @ w[j]).unsqueeze(-1) * w[j]
        found = torch.stack(scores[::-1], -1) * self.scale
        later = torch.arange(found.shape[1], device=at.device) > at.unsqueeze(1)
        return found.masked_fill(later, -torch.inf).softmax(-1) @ v[: found.shape[1]]

    def exact(self, q: Tensor, k: Tensor, v: Tensor, w: Tensor, beta: Tensor) -> Tensor:  # type: ignore[override]
        """The same: nothing is approximated."""
        return self.reference(q, k, v, w, beta)

    def prefill(  # type: ignore[override]
        self, q: Tensor, k: Tensor, v: Tensor, w: Tensor, beta: Tensor, *, capacity: int
    ) -> tuple[Tensor, State]:
        """Attend to the prompt, and keep the keys moved to its end. Raises ValueError where it does not fit."""
        kind, (n, D) = sums(q.dtype), q.shape[2:]
        if n == 0:
            return v.new_empty(*q.shape[:3], v.shape[3]), PathState(KvCache.of(k.to(kind), v.to(kind), capacity))
        with torch.no_grad():
            k_, w_, beta_ = in_tiles(*(x.to(kind) for x in (k, w, beta.unsqueeze(-1))))
            _, at_ends, crossings, _ = moved(k_, k_, w_, beta_)
            moved_on, onward = [], torch.eye(D, dtype=kind, device=k.device)
            for t in reversed(range(at_ends.shape[2])):
                moved_on.append(at_ends[:, :, t] @ onward.mT)
                onward = onward @ crossings[:, :, t]
            keys = torch.cat(moved_on[::-1], 2)[:, :, :n]
            return self(q, k, v, w, beta), PathState(KvCache.of(keys, v.to(kind), capacity))

    def step(self, q: Tensor, k: Tensor, v: Tensor, w: Tensor, beta: Tensor, *, state: State) -> tuple[Tensor, State]:  # type: ignore[override]
        """Reflect all keys in place, append one token, and attend to all of them. Raises ValueError beyond the capacity."""
        kind, cache = sums(q.dtype), state.cache
        asks, key, value, w, beta = (x.detach().to(kind) for x in (q, k, v, w, beta))
        cache = cache.then(key, value)
        before = cache.keys[:, :, :-1]
        before.sub_((before @ w.mT) * (beta.unsqueeze(-1) * w))
        # heads of q that share a head of k and v are rows of one product
        heads = q.shape[0], k.shape[1], q.shape[1] // k.shape[1]
        o, _ = attend(asks.reshape(*heads, -1), cache.keys, cache.values, Rule(self.scale))
        return o.reshape(*q.shape[:3], -1).to(q.dtype), replace(state, cache=cache)
