"""Log-linear attention: a state for each of O(log N) stretches of the past, as in a Fenwick tree.

B, b batch, H heads, K heads of k and v, R = H / K, N, n tokens, D query/key width, M value width, J levels; X rows (batch and
heads of k and v folded), S chunks of L tokens.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from attnbench.api import Attention, Cost, Problem, Projection, Scalar, State, Workload, io_bytes, nominal_flops

from ..partial.cache import refuse_beyond
from ..partial.heads import of_each_head
from ..recurrence.decay import Decay
from ..recurrence.heads import of_one_token, one_token_of
from ..recurrence.parts import refuse_bad_chunk
from ..recurrence.walk import Inputs, attend, attend_and_keep


@dataclass(frozen=True)
class Stretches:
    """The states of stretches of 1, 2, 4, … tokens, [b, K, J, D, M]: of 2^j tokens where bit j of the count is set."""

    sums: Tensor
    count: int


class LogLinear(Attention):
    """o_t = Σ_ℓ λ_t^(ℓ) S_t^(ℓ)ᵀ q_t, where S^(ℓ) sums up the decayed k_s v_sᵀ of 2^(ℓ-1) tokens, and S^(0) is that of t.

    Guo et al. 2025, *Log-Linear Attention*, section 3, over Mamba-2's recurrence; in O(N (L + D log N) M). A token s < t is
    of the level of the highest bit in which s and t differ, so that recent tokens have short stretches. Inputs are q, k, v,
    log α [B, K, N] ≤ 0 and λ [B, H, N, J] > 0, J = 1 + ⌈log₂ N⌉: α belongs to the states of a head of k and v, λ to the head of
    q that reads them. Raises ValueError unless chunk is a power of two.
    """

    paper = "arXiv:2506.04761"
    decodes = True
    packs = True
    causal_only = True
    because = "its states go from token to token"

    def __init__(self, problem: Problem, chunk: int = 64) -> None:
        super().__init__(problem)
        refuse_bad_chunk(chunk)
        if chunk & (chunk - 1):
            raise ValueError(f"chunk={chunk!r}: stretches are halved down to a token, so it must be a power of two")
        self.chunk = chunk
        self.chunks = -(-problem.N // chunk)

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count the products of chunks and of stretches that are read. Raises TypeError or ValueError on bad parameters."""
        p, method = problem, cls(problem, **params)  # type: ignore[arg-type]
        L, trains = method.chunk, workload is Workload.FORWARD_BACKWARD
        state, pair, times = 2.0 * p.D * p.M, 2.0 * (p.D + p.M), 3.0 if trains else 1.0
        asks, writes = p.H, p.kv_heads
        tokens = range(p.N - 1, p.N) if workload is Workload.DECODE else range(p.N)
        stretches = sum(t.bit_count() for t in tokens)
        gates = (writes * len(tokens) + asks * (len(tokens) + stretches)) * p.dtype.bytes * times
        if workload.decodes:
            exact = executed = len(tokens) * (writes * state + asks * pair) + asks * stretches * state
            # a stretch is read and decays, and one is written
            gates += 2.0 * writes * (len(tokens) + stretches) * p.D * p.M * max(4, p.dtype.bytes)
        else:
            # a short stretch is read at least cost pair by pair
            cheapest = [min(state, 2**j * pair) for j in range(levels(p.N))]
            read = sum(cheapest[j] for t in tokens for j in range(t.bit_length()) if t >> j & 1)
            exact = (len(tokens) * (writes * state + asks * pair) + asks * read) * times
            squares = (p.N - p.N % L) * L + (p.N % L) ** 2
            far = sum(n.bit_count() * min(L, p.N - n * L) for n in range(method.chunks))
            executed = (asks * squares * pair + (writes * p.N + asks * far) * state) * (4 if trains else 1)
        return Cost(
            nominal_flops=nominal_flops(p, workload),
            exact_flops=p.B * exact,
            executed_flops=p.B * executed,
            traffic_bytes=io_bytes(p, workload) + p.B * gates,
        )

    @classmethod
    def projections(cls, problem: Problem) -> tuple[Projection, ...]:
        """Name q, k, v, the number from which the decay is made, and those for the levels."""
        p = problem
        return *super().projections(p), Projection("decay", p.kv_heads, 1), Projection("levels", p.H, levels(p.N))

    @classmethod
    def admit(cls, problem: Problem, *raw: Tensor) -> tuple[Tensor, ...]:
        """Return q, k, v, log α = log σ(-x) / 16 as of GLA, and λ = softplus(y)."""
        q, k, v, x, y = super().admit(problem, *raw)
        return q, k, v, F.softplus(x).squeeze(-1) / -16, F.softplus(y)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, scales: Tensor) -> Tensor:  # type: ignore[override]
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M], [B, K, N], [B, H, N, J] -> [B, H, N, M], differentiable once."""
        return attend(self._form, (q, k, v, log_decay.unsqueeze(-1), scales), self.chunk, self._size)

    def reference(self, q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, scales: Tensor) -> Tensor:  # type: ignore[override]
        """Weight all N × N pairs by what is left of them and by their level."""
        k, v, log_decay = of_each_head(q, k, v, log_decay)
        c = log_decay.cumsum(2, dtype=torch.float64)
        later = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device).triu(1)
        left = (
            (c.unsqueeze(3) - c.unsqueeze(2))
            .masked_fill(later, -torch.inf)
            .to(torch.promote_types(v.dtype, torch.float32))
            .exp()
        )
        level = _level(torch.arange(q.shape[2], device=q.device)).expand(*scales.shape[:2], -1, -1)
        return (q @ k.mT * left.to(v.dtype) * scales.gather(-1, level)) @ v

    def rows(  # type: ignore[override]
        self,
        head: int,  # noqa: ARG002 - all heads alike
        at: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        log_decay: Tensor,
        scales: Tensor,
    ) -> Tensor:
        """Weight the pairs of the tokens `at`."""
        c, found = log_decay.cumsum(0, dtype=torch.float64), []
        for i in at.tolist():
            left = (c[i] - c[: i + 1]).to(v.dtype).exp()
            level = torch.tensor([(i ^ j).bit_length() for j in range(i + 1)], device=q.device)
            found.append((k[: i + 1] @ q[i] * left * scales[i, level]) @ v[: i + 1])
        return torch.stack(found)

    def exact(self, q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, scales: Tensor) -> Tensor:  # type: ignore[override]  # noqa: ARG002
        """Softmax attention over all keys; this is not meant to approximate it."""
        return super().exact(q, k, v)

    def prefill(  # type: ignore[override]
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        log_decay: Tensor,
        scales: Tensor,
        *,
        capacity: int,  # noqa: ARG002 - the levels are those of the problem
    ) -> tuple[Tensor, State]:
        """Attend to whole chunks of the prompt at once, and to the rest one by one. Raises ValueError beyond the levels."""
        refuse_beyond(q.shape[2], self.problem.N)
        whole = q.shape[2] - q.shape[2] % self.chunk
        first = (x[:, :, :whole] for x in (q, k, v, log_decay.unsqueeze(-1), scales))
        o, kept = attend_and_keep(self._form, tuple(first), self.chunk, self._size)
        sums = kept.new_zeros(*kept.shape[:2], levels(self.problem.N), q.shape[3], v.shape[3])
        finest = self.chunk.bit_length() - 1
        held = kept[:, :, :-1].unflatten(2, (-1, q.shape[3]))[:, :, : sums.shape[2] - finest]
        sums[:, :, finest : finest + held.shape[2]] = held
        state, outputs = Stretches(sums, whole), [o]
        for t in range(whole, q.shape[2]):
            o, state = self.step(*(x[:, :, t : t + 1] for x in (q, k, v, log_decay, scales)), state=state)
            outputs.append(o)
        return torch.cat(outputs, 2), state

    def step(self, q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, scales: Tensor, *, state: State) -> tuple[Tensor, State]:  # type: ignore[override]
        """Read one token's stretches and itself, and join stretches of one length in place, as a counter carries.

        Raises ValueError beyond the tokens that the levels are for.
        """
        refuse_beyond(state.count + 1, self.problem.N)
        sums, count, heads, dtype = state.sums, state.count, q.shape[1], v.dtype
        q, k, v, log_decay, scales = (x.detach().to(sums.dtype) for x in (q, k, v, log_decay, scales))
        q, scales = (of_one_token(x, k.shape[1]) for x in (q, scales))
        o, joined = (q * k).sum(-1, keepdim=True) * scales[..., :1] * v, k.mT @ v
        for j in (j for j in range(count.bit_length()) if count >> j & 1):
            stretch = sums[:, :, j].mul_(log_decay.exp().unsqueeze(-1))
            o = o + (q * scales[..., j + 1 : j + 2]) @ stretch
        j = 0
        while count >> j & 1:
            joined, j = joined + sums[:, :, j], j + 1
        sums[:, :, j] = joined
        return one_token_of(o.to(dtype), heads), replace(state, count=count + 1)

    @property
    def _size(self) -> tuple[int, int]:
        """Return the size of a state for each length of stretches, and a row that counts the chunks."""
        return self.chunks.bit_length() * self.problem.D + 1, self.problem.M

    def _form(self, inputs: Inputs, state: Tensor) -> tuple[Tensor, Tensor]:
        """Compute some chunks: q [S, X, R L, D], k, v, log decays [S, X, L, ·], λ [S, X, R L, J] -> o [S, X, R L, M]."""
        q, k, v, log_decay, scales = (x.contiguous() for x in inputs)
        decay, D, finest = Decay.of(log_decay), q.shape[-1], self.chunk.bit_length() - 1
        L = k.shape[2]
        level = _level(torch.arange(L, device=q.device)).repeat(q.shape[2] // L, 1).expand(*scales.shape[:2], -1, -1)
        o = (decay.pairs(q, k) * scales.gather(-1, level)) @ v
        asked, added, carry = decay.read(q), decay.write(k).mT @ v, decay.carry
        count = int(state[0, -1, 0])
        held = dict(enumerate(state[:, :-1].split(D, 1)))
        far = []
        for n in range(len(q)):
            bits = [j for j in held if (count + n) >> j & 1]
            if bits:
                by_level = scales[n, :, :, [finest + 1 + j for j in bits]]
                asks = (asked[n].unsqueeze(-2) * by_level.unsqueeze(-1)).flatten(-2)
                far.append(asks @ torch.cat([held[j] for j in bits], 1))
            else:
                far.append(torch.zeros_like(o[n]))
            joined, j = added[n], 0
            while (count + n) >> j & 1:
                joined, j = joined + carry[n] * held[j], j + 1
            held = {i: (joined if i == j else held[i] if i < j else carry[n] * held[i]) for i in held}
        counted = F.pad(state.new_full((len(state), 1, 1), float(count + len(q))), (0, v.shape[-1] - 1))
        return o + torch.stack(far), torch.cat((*held.values(), counted), 1)


def levels(N: int) -> int:
    """Count the levels of N tokens: the token itself, and a bit for each in which two positions may differ."""
    return 1 + (N - 1).bit_length()


def _level(at: Tensor) -> Tensor:
    """Return the level of each pair of positions, int64 [n, n]: the number of bits up to the highest in which they differ."""
    # half a step above each number, where rounding cannot decide: of 8 a GPU's logarithm is below 3; of 0 it is -1
    highest = (at.unsqueeze(1) ^ at).double().add(0.5).log2().floor().clamp(min=-1)
    return highest.long() + 1
