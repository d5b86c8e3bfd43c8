"""MesaNet: each token reads the linear map that fits all values so far best, found by conjugate gradients.

B, b batch, H heads, K heads of k and v, R = H / K, N tokens, D query/key width, M value width; X rows (batch and heads of k and
v folded), S chunks of L tokens.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from attnbench.api import Cost, Problem, Projection, Scalar, Workload

from ...partial.heads import of_each_head
from ...recurrence.by_chunks import ByChunks
from ...recurrence.decay import Decay
from ...recurrence.heads import each_head_
from ...recurrence.states import states
from ...recurrence.walk import Inputs
from ..gates import Pace
from .gated_deltanet import GatedDeltaNet

LEAST = 0.25
"""The least λ, as in flash-linear-attention."""
ROUNDS = 200
"""The rounds of conjugate gradients at most, however badly conditioned a system is."""


class MesaNet(ByChunks):
    """o_t = scale G_t (H_t + Λ)⁻¹ q_t with H_t = α_t H_{t-1} + β_t k_t k_tᵀ and G_t = α_t G_{t-1} + β_t v_t k_tᵀ.

    Von Oswald et al. 2025, *MesaNet*, section 2, eq. 6-8, in O(N R (L + D) D) for R rounds of conjugate gradients: as many as
    some tokens together need to be as exact as their dtype, where the paper takes 30 or stops by an error. Inputs are those of
    Gated DeltaNet. Λ = diag(0.25 + softplus(x)) [K, D] is learned for each state, and 1 at first. What it executes depends on
    its inputs, so its FLOPs are not counted.
    """

    paper = "arXiv:2506.05233"

    def __init__(self, problem: Problem, chunk: int = 64, scale: float = 1.0) -> None:
        super().__init__(problem, chunk, scale)
        start = torch.tensor(1 - LEAST, dtype=torch.float64).expm1().log()
        self.ridge = nn.Parameter(start.expand(problem.kv_heads, problem.D).to(getattr(torch, problem.dtype), copy=True))

    @property
    def size(self) -> tuple[int, int]:
        """Return the size of Hᵀ beside Gᵀ."""
        return self.problem.D, self.problem.D + self.problem.M

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost | None:  # noqa: ARG003
        """Return None. Raises TypeError or ValueError on bad parameters."""
        cls(problem, **params)  # type: ignore[arg-type]
        return None

    @classmethod
    def projections(cls, problem: Problem) -> tuple[Projection, ...]:
        """Name those of Gated DeltaNet."""
        return GatedDeltaNet.projections(problem)

    @classmethod
    def admit(cls, problem: Problem, *raw: Tensor, pace: Pace | None = None) -> tuple[Tensor, ...]:
        """Return what Gated DeltaNet takes."""
        return GatedDeltaNet.admit(problem, *raw, pace=pace)

    @classmethod
    def drawn_once(cls, problem: Problem, generator: torch.Generator) -> dict[str, Any]:
        """Draw what Gated DeltaNet draws."""
        return GatedDeltaNet.drawn_once(problem, generator)

    @property
    def weights(self) -> Tensor:
        """Return the diagonal of Λ, [K, D]."""
        return LEAST + F.softplus(self.ridge)

    def prepared(self, q: Tensor, k: Tensor, v: Tensor, *gates: Tensor) -> Inputs:
        """Divide queries and keys by √Λ, with which H + Λ becomes H + I, and G (H + Λ)⁻¹ q what it was."""
        shrunk = self.weights.rsqrt().unsqueeze(1)
        return q * shrunk.repeat_interleave(q.shape[1] // k.shape[1], 0), k * shrunk, v, *gates

    def by_chunks(self, inputs: Inputs, state: Tensor) -> tuple[Tensor, Tensor]:
        """Compute a part by chunks: each token's system is solved by products of all tokens at once."""
        q, k, v, beta, g = (x.contiguous() for x in inputs)
        decay, strong = Decay.of(g), k * beta
        remains = decay.pairs_left
        met = states(decay.carry, decay.write(strong).mT @ torch.cat((k, v), -1), state)
        of_keys, of_values = met[:-1].split((k.shape[-1], v.shape[-1]), -1)

        def times(x: Tensor, sums: Tensor, tokens: Tensor) -> Tensor:
            """Multiply H or G of each token with its own x."""
            return decay.read(x) @ sums + each_head_(x @ strong.mT, remains) @ tokens

        def system(x: Tensor) -> Tensor:
            return x + times(x, of_keys, k)

        with torch.no_grad():
            x = _solved(system, q)
        if torch.is_grad_enabled():
            x = _Solution.apply(q - system(x), x, system)  # type: ignore[no-untyped-call]
        return times(x, of_values, v), met[-1].clone()

    def by_token(self, inputs: Inputs, state: Tensor) -> Tensor:
        """Compute one token, whose system is solved directly."""
        q, k, v, beta, g = inputs
        state.mul_(g.exp()).addcmul_((k * beta).mT, torch.cat((k, v), -1))
        of_keys, of_values = state.split((k.shape[-1], v.shape[-1]), -1)
        x = torch.linalg.solve(of_keys + torch.eye(k.shape[-1], dtype=q.dtype, device=q.device), q.mT)
        o: Tensor = x.mT @ of_values
        return o

    def reference(self, q: Tensor, k: Tensor, v: Tensor, *gates: Tensor) -> Tensor:
        """Build H of each token from all tokens, and solve its system directly."""
        beta, g = gates
        dtype, weights = v.dtype, self.weights.repeat_interleave(q.shape[1] // k.shape[1], 0)
        k, v, beta, g = of_each_head(q, k, v, beta, g)
        kind = torch.promote_types(v.dtype, torch.float32)
        c = g.cumsum(2, dtype=torch.float64)
        later = torch.ones(c.shape[2], c.shape[2], dtype=torch.bool, device=c.device).triu(1)
        q, k, v, strong = (x.to(kind) for x in (q, k, v, beta))
        share_BHNN = (c.unsqueeze(3) - c.unsqueeze(2)).masked_fill(later, -torch.inf).to(kind).exp() * strong.unsqueeze(2)
        system_BHNDD = torch.einsum("bhij,bhjd,bhje->bhide", share_BHNN, k, k) + weights.to(kind).diag_embed().unsqueeze(1)
        x = torch.linalg.solve(system_BHNDD, q.unsqueeze(-1)).squeeze(-1)
        o: Tensor = self.scale * (share_BHNN * (x @ k.mT)) @ v
        return o.to(dtype)

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor, *gates: Tensor) -> Tensor:
        """Solve the systems of the tokens `at` of head `head`."""
        (beta, g), found = gates, []
        ridge = self.weights[head * self.problem.kv_heads // self.problem.H].diag()
        c = g.cumsum(0, dtype=torch.float64)
        for i in at.tolist():
            share = (c[i] - c[: i + 1]).to(v.dtype).exp() * beta[: i + 1]
            keys = k[: i + 1]
            x = torch.linalg.solve((keys.mT * share) @ keys + ridge, q[i])
            found.append(self.scale * (keys @ x * share) @ v[: i + 1])
        return torch.stack(found)


def _solved(system: Callable[[Tensor], Tensor], right: Tensor) -> Tensor:
    """Solve symmetric positive systems, one for each vector of `right` [..., D], by conjugate gradients.

    `system` multiplies each vector with its own matrix. What is left is 2 ε of the right-hand side or less, by its own
    recurrence.
    """
    x, left, way = torch.zeros_like(right), right.clone(), right.clone()
    square = left.square().sum(-1, keepdim=True)
    enough = square * (2 * torch.finfo(right.dtype).eps) ** 2
    for _ in range(ROUNDS):
        open_ = square > enough
        if not open_.any():
            break
        image = system(way)
        # a system that is solved stays as it is, whatever others need
        length = torch.where(open_, square / (way * image).sum(-1, keepdim=True), 0)
        x.addcmul_(length, way)
        left.addcmul_(length, image, value=-1)
        before, square = square, left.square().sum(-1, keepdim=True)
        way = left + torch.where(open_, square / before, 0) * way
    return x


class _Solution(torch.autograd.Function):
    """The solution x, as a function of what it leaves of the right-hand side, which is nothing: dx = A⁻¹ d(right - A x)."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, x: Tensor, system: Callable[[Tensor], Tensor]) -> Tensor:  # noqa: ANN401, ARG004 - torch's own bag
        """Return x."""
        ctx.system = system
        return x.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own bag
        """Solve the same system, which is symmetric, for the gradient."""
        return _solved(ctx.system, g), None, None
