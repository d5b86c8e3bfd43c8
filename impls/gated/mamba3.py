"""Mamba-3's state space model: each step is a trapezoid between two tokens, and the state turns as it decays.

B, b batch, H heads of q, K heads of k and v, R = H / K, N, n tokens, L tokens of a chunk, D query/key width, M value width, A
angles of a token.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from attnbench.api import Attention, Cell, Cost, Problem, Projection, Scalar, State, Workload

from ..partial.heads import of_each_head
from ..recurrence.linear import linear_attention
from ..recurrence.parts import refuse_bad_chunk, sums
from ..recurrence.state import RecurrentState
from .cost import cost_by_chunks

FLOOR = 1e-4
"""The least rate of decay -A, as in the authors' code."""


@dataclass(frozen=True)
class Turned:
    """The state before the last token's own share, [b, K, D, M], float32 at least, and what is kept of that token.

    It is k̂, v, λ Δ and how far it is turned, [b, K, 1, ·]: in turns, float64, between -1 and 1.
    """

    sums: RecurrentState
    last: tuple[Tensor, ...]


class Mamba3(Attention):
    """S_t = α_t S_{t-1} + (1 - λ_t) Δ_t α_t k̂_{t-1} v_{t-1}ᵀ + λ_t Δ_t k̂_t v_tᵀ, y_t = S_tᵀ q̂_t, in O(N (L + D) M).

    Lahoti et al. 2026, *Mamba-3*, with one input and one output (SISO), as in the authors' code. q̂_t and k̂_t are q_t = C_t and
    k_t = B_t turned by the angles θ_1 + … + θ_t of their head, channels 2a and 2a + 1 by the a-th; of D channels half are
    turned, as there. Inputs are C, B, x, and of each head of B and x Δ > 0, log α ≤ 0 and λ in (0, 1) [B, K, N], and θ [B, K,
    N, A], A = ⌊D / 4⌋, 1 at least. Norm and bias of B and C, the skip D x and the gate are not part of the attention. Raises
    ValueError where chunk < 1.
    """

    paper = "arXiv:2603.15569"
    decodes = True
    packs = True
    causal_only = True
    because = "its state goes from token to token, and forgets"

    def __init__(self, problem: Problem, chunk: int = 64) -> None:
        super().__init__(problem)
        refuse_bad_chunk(chunk)
        self.chunk = chunk

    @classmethod
    def why_not(cls, cell: Cell) -> str | None:
        """Refuse a single channel, which has no other to be turned with."""
        return "channels are turned by pairs: D=1 must be 2 at least" if cell.problem.D == 1 else None

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count a gated linear attention with 3 + A gates for each token. Raises TypeError or ValueError on bad parameters."""
        chunk = cls(problem, **params).chunk  # type: ignore[arg-type]
        return cost_by_chunks(problem, chunk, 3 + angle_count(problem), workload)

    @classmethod
    def projections(cls, problem: Problem) -> tuple[Projection, ...]:
        """Name q, k, v, the numbers from which Δ, α and λ are made, and the A from which the angles are."""
        gates = {"step": 1, "decay": 1, "trapezoid": 1, "angles": angle_count(problem)}
        return *super().projections(problem), *(Projection(name, problem.kv_heads, n) for name, n in gates.items())

    @classmethod
    def admit(cls, problem: Problem, *raw: Tensor) -> tuple[Tensor, ...]:
        """Return C, B, x, Δ = softplus(x - 4), log α = -Δ softplus(y), λ = σ(z), and θ = Δ π tanh(w).

        Drawn Δ lie mostly in 0.001 … 0.1, where the authors' code begins.
        """
        q, k, v, *x = super().admit(problem, *raw)
        step, decay, trapezoid = (each.squeeze(-1) for each in x[:3])
        step = F.softplus(step - 4)
        log_decay = -step * F.softplus(decay).clamp(min=FLOOR)
        return q, k, v, step, log_decay, trapezoid.sigmoid(), step.unsqueeze(-1) * (math.pi * x[3].tanh())

    def forward(self, *inputs: Tensor) -> Tensor:
        """Attend: q [B, H, N, D], k, v and gates [B, K, N, ...] -> [B, H, N, M], any N, differentiable once."""
        return self._attend(inputs)[0]

    def reference(self, *inputs: Tensor) -> Tensor:
        """Weight all N × N pairs: a key counts with the share of its own step, and with that of the next one."""
        q, k, v, step, log_decay, trapezoid, theta = (x.to(sums(x.dtype)) for x in inputs)
        k, v, step, log_decay, trapezoid, theta = of_each_head(q, k, v, step, log_decay, trapezoid, theta)
        turns = theta.cumsum(2, dtype=torch.float64)
        own, following = trapezoid * step, F.pad(((1 - trapezoid) * step)[:, :, 1:], (0, 1))
        c = log_decay.cumsum(2, dtype=torch.float64)
        later = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device).triu(1)
        left = (c.unsqueeze(3) - c.unsqueeze(2)).masked_fill(later, -torch.inf).to(v.dtype).exp()
        shares = left * own.unsqueeze(2) + left.tril(-1) * following.unsqueeze(2)
        o: Tensor = (shares * (_turned_exactly(q, turns) @ _turned_exactly(k, turns).mT)) @ v
        return o.to(inputs[2].dtype)

    def rows(self, head: int, at: Tensor, *inputs: Tensor) -> Tensor:  # noqa: ARG002 - all heads alike
        """Weight the pairs of the tokens `at`."""
        q, k, v, step, log_decay, trapezoid, theta = inputs
        turns, c, found = theta.cumsum(0, dtype=torch.float64), log_decay.cumsum(0, dtype=torch.float64), []
        q, k = _turned_exactly(q, turns), _turned_exactly(k, turns)
        for i in at.tolist():
            share = (trapezoid * step)[: i + 1] + F.pad(((1 - trapezoid) * step)[1 : i + 1], (0, 1))
            found.append((k[: i + 1] @ q[i] * (c[i] - c[: i + 1]).to(v.dtype).exp() * share) @ v[: i + 1])
        return torch.stack(found)

    def exact(self, *inputs: Tensor) -> Tensor:
        """Softmax attention by C, B and x; this is not meant to approximate it."""
        return super().exact(*inputs[:3])

    @torch.no_grad()
    def prefill(self, *inputs: Tensor, capacity: int) -> tuple[Tensor, State]:  # noqa: ARG002 - the state is of one size
        """Attend to n ≥ 0 tokens by chunks, and return the state after them."""
        return self._attend(inputs)

    @torch.no_grad()
    def extend(self, *inputs: Tensor, state: State) -> tuple[Tensor, State]:
        """Attend to many more tokens by chunks, without changing the given state."""
        return self._attend(inputs, state)

    @torch.no_grad()
    def step(self, *inputs: Tensor, state: State) -> tuple[Tensor, State]:
        """Attend one token: decay the state, write the last token into it in place, and read it and the token itself."""
        o, after = self._attend(inputs, state, one=True)
        for held, new in zip(state.last, after.last, strict=True):
            held.copy_(new)
        return o, state

    def _attend(self, inputs: tuple[Tensor, ...], before: State | None = None, *, one: bool = False) -> tuple[Tensor, Turned]:
        """Attend after a state, in which `one` token is written in place.

        What a token writes into the state before the next one's share is λ_t Δ_t α_{t+1} + (1 - λ_{t+1}) Δ_{t+1} α_{t+1} times
        k̂_t v_tᵀ, so that one gated linear attention over the tokens before each, and each token's own pair, are the whole.
        """
        q, k, v, step, log_decay, trapezoid, theta = (x.to(sums(x.dtype)) for x in inputs)
        step, log_decay, trapezoid = (x.unsqueeze(-1) for x in (step, log_decay, trapezoid))
        before = self._nothing(k, v, theta) if before is None else before
        if not k.shape[2]:
            return inputs[2].new_empty(*q.shape[:3], v.shape[3]), before
        last_k, last_v, last_share, last_turns = before.last
        share, by_state = trapezoid * step, q.unflatten(1, (k.shape[1], -1))
        own = (by_state * k.unsqueeze(2)).sum(-1, keepdim=True) * share.unsqueeze(2)
        turns = (last_turns + (theta / (2 * math.pi)).cumsum(2, dtype=torch.float64)).frac()
        angles = (turns * (2 * math.pi)).to(k.dtype)
        turn = torch.complex(angles.cos(), angles.sin())
        q, k = _turned(by_state, turn.unsqueeze(2)).flatten(1, 2), _turned(k, turn)
        written = log_decay.exp() * (torch.cat((last_share, share), 2)[:, :, :-1] + (1 - trapezoid) * step)
        # the first token follows the one that the state keeps, and the others each other
        state = before.sums if one else RecurrentState(before.sums.sums.clone())
        state = state.then(last_k, last_v * written[:, :, :1], log_decay[:, :, :1])
        o = state.read(q[:, :, :1])
        if k.shape[2] > 1:
            others, after = linear_attention(
                q[:, :, 1:],
                k[:, :, :-1],
                v[:, :, :-1] * written[:, :, 1:],
                log_decay[:, :, 1:],
                chunk=self.chunk,
                state=state.sums,
            )
            o, state = torch.cat((o, others), 2), RecurrentState(after)
        o = torch.addcmul(o.unflatten(1, (k.shape[1], -1)), own, v.unsqueeze(2)).flatten(1, 2)
        # clones, since views would keep all tokens
        return o.to(inputs[2].dtype), Turned(state, tuple(x[:, :, -1:].clone() for x in (k, v, share, turns)))

    def _nothing(self, k: Tensor, v: Tensor, theta: Tensor) -> Turned:
        """Return the state before the first token."""
        heads = k.shape[:2]
        last = (v.new_zeros(*heads, 1, width) for width in (k.shape[3], v.shape[3], 1))
        turns = theta.new_zeros(*heads, 1, theta.shape[3], dtype=torch.float64)
        return Turned(RecurrentState(v.new_zeros(*heads, k.shape[3], v.shape[3])), (*last, turns))


def angle_count(problem: Problem) -> int:
    """Count the angles of a token, A: those of half its channels."""
    return max(1, problem.D // 4)


def _turned(x: Tensor, turn: Tensor) -> Tensor:
    """Turn channels 2a and 2a + 1, as one complex number, by the a-th of A of length 1: [..., D], [..., A] -> [..., D]."""
    end = 2 * turn.shape[-1]
    # `view_as_complex` refuses a tensor that lies at an odd place of another, which `contiguous` may return as it is
    pairs = torch.complex(x[..., :end:2], x[..., 1:end:2]) * turn
    return torch.cat((torch.view_as_real(pairs).flatten(-2), x[..., end:]), -1)


def _turned_exactly(x: Tensor, angles: Tensor) -> Tensor:
    """Turn them by angles in float64, as a matrix of two rows does."""
    end, cos, sin = 2 * angles.shape[-1], angles.cos(), angles.sin()
    even, odd = x[..., :end:2].double(), x[..., 1:end:2].double()
    pairs = torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)
    return torch.cat((pairs.to(x.dtype), x[..., end:]), -1)
