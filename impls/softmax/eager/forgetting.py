"""Softmax attention that forgets: the Forgetting Transformer's attention.

b or B batch, H heads, K heads of k and v, n or N tokens or rows, D query/key width, M value width.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from attnbench.api import Attention, Cost, Problem, Projection, Scalar, State, Workload, default_scale

from ...partial.cache import KvCache
from ...partial.heads import of_each_head
from ...partial.softmax import Rule, attend, sums
from ..work import FLASH_BACKWARD, cost, refuse_parameters
from . import forgetting_product
from .forgetting_product import forgetting_attention


@dataclass(frozen=True)
class ForgettingState:
    """Keys and values, and for each of them the logarithms of all gates up to it, in float64 [b, H, capacity]."""

    cache: KvCache
    c: Tensor

    @property
    def length(self) -> int:
        """Count the tokens so far."""
        return self.cache.length


class ForgettingSoftmax(Attention):
    """o_i = Σ_j F_ij exp(q_i·k_j / √D) v_j / Σ_j F_ij exp(q_i·k_j / √D) over j ≤ i, where F_ij = Π f_l over j < l ≤ i.

    Lin et al. 2025, *Forgetting Transformer*, section 3; in O(N²) time and O(N) memory, by tiles. Inputs are q, k, v and log f
    [B, H, N] ≤ 0. Norms of q and k, and the gate and norm of the output that the paper's Pro block adds, are not part of the
    attention.
    """

    paper = "arXiv:2503.02130"
    causal_only = True
    because = "a token forgets what came before it"
    decodes = appends = True
    packs = True

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.scale = default_scale(problem)

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count whole tiles, whose bias hides what is later, as wide as they are, and the gates. Raises TypeError on any."""
        refuse_parameters(params)
        p, tile, wide = problem, forgetting_product.OWN, forgetting_product.width(problem.D, problem.M)
        plain, products = cost(p, workload, executed=0), 2 + FLASH_BACKWARD if workload is Workload.FORWARD_BACKWARD else 2
        pairs = sum((min(a + tile, p.N) - a) * min(a + tile, p.N) for a in range(0, p.N, tile))
        executed = plain.exact_flops if workload.decodes else float(products * p.B * p.H * pairs * 2 * wide)
        tokens = {Workload.DECODE: 1, Workload.FORWARD_BACKWARD: 3 * p.N}.get(workload, p.N)
        # the sums of the log gates are kept in float64
        seen = {Workload.DECODE: p.N, Workload.DECODE_TOTAL: p.N * (p.N + 1) / 2}.get(workload, 0)
        gates = p.B * p.H * (tokens * p.dtype.bytes + 8.0 * seen)
        return plain.model_copy(update={"executed_flops": executed, "traffic_bytes": plain.traffic_bytes + gates})

    @classmethod
    def projections(cls, problem: Problem) -> tuple[Projection, ...]:
        """Name q, k, v, and the number from which the gate is made."""
        return *super().projections(problem), Projection("gate", problem.H, 1)

    @classmethod
    def admit(cls, problem: Problem, *raw: Tensor) -> tuple[Tensor, ...]:
        """Return q, k, v and log f = log σ(x)."""
        q, k, v, x = super().admit(problem, *raw)
        return q, k, v, -F.softplus(-x).squeeze(-1)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, log_gates: Tensor) -> Tensor:  # type: ignore[override]
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M], [B, H, N] -> [B, H, N, M]."""
        return forgetting_attention(q, k, v, log_gates, self.scale)

    def reference(self, q: Tensor, k: Tensor, v: Tensor, log_gates: Tensor) -> Tensor:  # type: ignore[override]
        """Compute all N × N scores, with log F added to them."""
        k, v = of_each_head(q, k, v)
        # what counts are small differences of sums over many tokens
        c = log_gates.cumsum(-1, dtype=torch.float64)
        scores_BHNN = q @ k.mT * self.scale + (c.unsqueeze(-1) - c.unsqueeze(-2)).to(sums(q.dtype))
        later_NN = torch.ones(scores_BHNN.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        return scores_BHNN.masked_fill(later_NN, -torch.inf).softmax(-1).to(v.dtype) @ v

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor, log_gates: Tensor) -> Tensor:  # type: ignore[override]  # noqa: ARG002 - all heads alike
        """Compute the scores of the queries `at` with all keys."""
        c = log_gates.cumsum(-1, dtype=torch.float64)
        scores = q[at] @ k.mT * self.scale + (c[at].unsqueeze(-1) - c).to(sums(q.dtype))
        later = torch.arange(len(k), device=at.device) > at.unsqueeze(1)
        return scores.masked_fill(later, -torch.inf).softmax(-1).to(v.dtype) @ v

    def exact(self, q: Tensor, k: Tensor, v: Tensor, log_gates: Tensor) -> Tensor:  # type: ignore[override]
        """The same: nothing is approximated."""
        return self.reference(q, k, v, log_gates)

    def prefill(  # type: ignore[override]
        self, q: Tensor, k: Tensor, v: Tensor, log_gates: Tensor, *, capacity: int
    ) -> tuple[Tensor, State]:
        """Attend to the prompt, and keep keys, values and sums. Raises ValueError where it does not fit."""
        cache, n = KvCache.of(k, v, capacity), q.shape[2]
        c = torch.zeros(*log_gates.shape[:2], capacity, dtype=torch.float64, device=q.device)
        c[..., :n] = log_gates.detach().to(c.dtype).cumsum(-1)
        o = self(q, k, v, log_gates) if n else v.new_empty(*q.shape[:3], v.shape[3])
        return o, ForgettingState(cache, c)

    def step(self, q: Tensor, k: Tensor, v: Tensor, log_gates: Tensor, *, state: State) -> tuple[Tensor, State]:  # type: ignore[override]
        """Append one token, and attend to all of them. Raises ValueError beyond the capacity."""
        return self.extend(q, k, v, log_gates, state=state)

    def extend(self, *inputs: Tensor, state: State) -> tuple[Tensor, State]:
        """Append n tokens, and attend to them and those before at once. Raises ValueError beyond the capacity."""
        q, k, v, log_gates = (x.detach() for x in inputs)
        at, n, cache = state.length, q.shape[2], state.cache.then(k, v)
        new = log_gates.to(state.c.dtype).cumsum(-1)
        state.c[..., at : at + n] = new if at == 0 else new + state.c[..., at - 1 : at]
        since = state.c[..., at : at + n].unsqueeze(-1) - state.c[..., : at + n].unsqueeze(-2)
        since = since.to(sums(q.dtype))
        if n > 1:
            since.masked_fill_(torch.ones(n, at + n, dtype=torch.bool, device=q.device).triu(at + 1), -torch.inf)
        # heads of q that share a head of k and v are rows of one product
        rows = q.shape[0], k.shape[1], q.shape[1] // k.shape[1] * n
        o, _ = attend(q.reshape(*rows, -1), cache.keys, cache.values, Rule(self.scale, bias=since.reshape(*rows, -1)))
        return o.reshape(*q.shape[:3], -1).to(q.dtype), replace(state, cache=cache)
