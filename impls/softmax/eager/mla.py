"""Multi-head latent attention: keys and values of all heads are made from one latent a token, which is all that decoding keeps.

B or b batch, H heads, N or n tokens, R width of the latent, D query/key width of which P are for positions, M value width.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnbench.api import Attention, Cell, Cost, Problem, Projection, Scalar, State, Workload, default_scale

from ...partial.cache import KvCache
from ...partial.rows import seen_by, softmax_rows
from ...partial.widths import one_width
from ..reference import softmax_attention
from ..work import cost, fused_flops, refuse_parameters


class LatentSoftmax(Attention):
    """softmax(q kᵀ / √D) v with k_h = [c U_h, p] and v_h = c V_h, from a latent c and a key p that all heads share.

    DeepSeek-AI 2024, *DeepSeek-V2*, section 2.1, eq. 10-11 and 16-18, by torch's fused kernels. Inputs are q, c [B, 1, N, R]
    and p [B, 1, N, P], which is for positions; as in the paper's model R = 4 M and P = D / 3. U [H, R, D - P] and V [H, R, M]
    are learned. Decoding keeps c and p alone, R + P numbers a token for all heads: U is absorbed into the query and V into
    the output. The rotation of q and p is not part of the attention.
    """

    paper = "arXiv:2405.04434"
    decodes = appends = True
    packs = True
    grouped = False
    weighs = False

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        R, turned = latent_widths(problem)
        self.scale, self.plain = default_scale(problem), problem.D - turned
        expand = torch.randn(problem.H, R, self.plain + problem.M) * R**-0.5
        self.expand = nn.Parameter(expand.to(getattr(torch, problem.dtype)))

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Refuse a single channel, which would be for positions and leave a key none of its latent."""
        return "one channel is for positions and another of the latent: D=1 must be 2 at least" if cell.problem.D == 1 else None

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count softmax attention and the expansion; a step attends to latents. Raises TypeError on any parameter."""
        refuse_parameters(params)
        p, (R, turned), trains = problem, latent_widths(problem), workload is Workload.FORWARD_BACKWARD
        tokens = 1 if workload is Workload.DECODE else p.N
        expansion = 2.0 * p.B * p.H * tokens * R * (p.D - turned + p.M)
        latents, plain = p.B * tokens * float(R + turned) * p.dtype.bytes, cost(p, workload, executed=0)
        steps = {Workload.DECODE_TOTAL: p.N, Workload.FORWARD_BACKWARD: 3}.get(workload, 1)
        learnt = steps * p.H * float(R * (p.D - turned + p.M)) * p.dtype.bytes
        own = p.B * tokens * p.H * float(p.D + p.M) * p.dtype.bytes
        if workload.decodes:
            seen = float(p.N) if workload is Workload.DECODE else p.N * (p.N + 1) / 2
            exact = executed = expansion + 2.0 * p.B * p.H * seen * (2 * R + turned)
            moved = own + latents + p.B * seen * (R + turned) * p.dtype.bytes
        else:
            wide = p.model_copy(update={"D": max(p.D, p.M), "M": max(p.D, p.M)})
            exact = plain.exact_flops + expansion * (3 if trains else 1)
            executed = fused_flops(wide, workload) + expansion * (3 if trains else 1)
            moved = (own + latents) * (3 if trains else 1) - (p.B * tokens * p.H * p.M * p.dtype.bytes if trains else 0)
        return plain.model_copy(update={"exact_flops": exact, "executed_flops": executed, "traffic_bytes": moved + learnt})

    @classmethod
    def projections(cls, problem: Problem) -> tuple[Projection, ...]:
        """Name q, the latent and the key for positions."""
        R, turned = latent_widths(problem)
        return Projection("q", problem.H, problem.D), Projection("latent", 1, R), Projection("position", 1, turned)

    def forward(self, q: Tensor, c: Tensor, p: Tensor) -> Tensor:
        """Attend: [B, H, N, D], [B, 1, N, R], [B, 1, N, P] -> [B, H, N, M]."""
        q, k, v = one_width(q, *self._expanded(c, p))
        o = F.scaled_dot_product_attention(q, k, v, is_causal=self.problem.causal, scale=self.scale)
        return o[..., : self.problem.M]

    def reference(self, q: Tensor, c: Tensor, p: Tensor) -> Tensor:
        """Compute all N × N scores of expanded keys."""
        return softmax_attention(q, *self._expanded(c, p), causal=self.problem.causal)

    def rows(self, head: int, at: Tensor, q: Tensor, c: Tensor, p: Tensor) -> Tensor:
        """Compute the scores of the queries `at` with all keys of head `head`."""
        plain, v = (c @ self.expand[head]).split((self.plain, self.problem.M), -1)
        seen = seen_by(at, len(c), causal=self.problem.causal)
        return softmax_rows(q[at], torch.cat((plain, p), -1), v, self.scale, seen)

    def exact(self, q: Tensor, c: Tensor, p: Tensor) -> Tensor:
        """The same: nothing is approximated."""
        return self.reference(q, c, p)

    def prefill(self, q: Tensor, c: Tensor, p: Tensor, *, capacity: int) -> tuple[Tensor, State]:
        """Attend to the prompt, and keep its latents. Raises ValueError where they do not fit."""
        o = self(q, c, p) if q.shape[2] else q.new_empty(*q.shape[:3], self.problem.M)
        return o, KvCache.of(c, p, capacity)

    def step(self, q: Tensor, c: Tensor, p: Tensor, *, state: State) -> tuple[Tensor, State]:
        """Append one latent, and attend to all of them: section 2.1.2. Raises ValueError beyond the capacity."""
        return self.extend(q, c, p, state=state)

    def extend(self, *inputs: Tensor, state: State) -> tuple[Tensor, State]:
        """Append n latents, and attend to all of them: section 2.1.2. Raises ValueError beyond the capacity."""
        with torch.no_grad():
            q, c, p = inputs
            cache: KvCache = state.then(c, p)
            absorbed, out = self.expand.split((self.plain, self.problem.M), -1)
            plain, turned = q.split((self.plain, q.shape[3] - self.plain), -1)
            # all heads are rows of one product with the latents, [b, 1, H n, R]
            asks, turned = (x.flatten(1, 2).unsqueeze(1) for x in (plain @ absorbed.mT, turned))
            scores = (asks @ cache.keys.mT + turned @ cache.values.mT).unflatten(2, q.shape[1:3])
            wide, n = torch.promote_types(q.dtype, torch.float32), q.shape[2]
            if n > 1:
                later = torch.ones(n, cache.length, dtype=torch.bool, device=q.device).triu(cache.length - n + 1)
                scores = scores.masked_fill(later, -torch.inf)
            weights = (scores.to(wide) * self.scale).softmax(-1).to(q.dtype)
            return (weights.flatten(2, 3) @ cache.keys).view(*q.shape[:3], -1) @ out, cache

    def _expanded(self, c: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
        """Make keys [B, H, N, D] and values [B, H, N, M] of all heads."""
        # a product each: fused kernels on GPUs read rows that begin where 16 bytes do, and the halves of one product may not
        of_keys, of_values = self.expand.split((self.plain, self.problem.M), -1)
        return torch.cat((c @ of_keys, p.expand(-1, self.problem.H, -1, -1)), -1), c @ of_values


def latent_widths(problem: Problem) -> tuple[int, int]:
    """Return the widths of a latent and of the key for positions; the paper has 512 and 64 where M = 128 and D = 192."""
    return 4 * problem.M, max(1, problem.D // 3)
