"""GSA: a bounded memory of slots that forget, read by a softmax.

B batch, H heads, K heads of k and v, R = H / K, N tokens, D query/key width, M value width, Z = D slots; X rows (batch and
heads of k and v folded), S chunks of L tokens.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from attnbench.api import Attention, Cost, Problem, Projection, Scalar, State, Workload, io_bytes

from ..partial.heads import of_each_head
from ..recurrence.decay import FACTORED, left
from ..recurrence.heads import each_head, lower_, of_one_token, one_token_of
from ..recurrence.linear import linear_attention
from ..recurrence.parts import refuse_bad_chunk, sums
from ..recurrence.state import RecurrentState
from ..recurrence.states import states
from ..recurrence.walk import Inputs, attend, attend_and_keep
from .cost import cost_by_chunks

FEW = 8
"""Tokens from which on a chunk takes less time than so many steps."""


@dataclass(frozen=True)
class Slots:
    """The keys [b, K, D, Z] and the values [b, K, Z, M] that the slots hold, float32 at least."""

    keys: Tensor
    values: RecurrentState


class GatedSlots(Attention):
    """K̃_t = Diag(α_t) K̃_{t-1} + (1 - α_t) k_tᵀ, Ṽ_t alike from v_t, and o_t = Ṽ_tᵀ softmax(K̃_t q_t), in O(N (L + D) Z).

    Zhang et al. 2024, *Gated Slot Attention*, section 3, with Z = D slots, as in the authors' layer. Inputs are q, k, v and
    log α [B, K, N, Z] ≤ 0; the gate that α comes from is not part of the attention. A head of k and v has slots, which each
    head of q that it serves reads by a softmax of its own. Raises ValueError where chunk < 1.
    """

    paper = "arXiv:2409.07146"
    decodes = True
    packs = True
    causal_only = True
    because = "its slots go from token to token, and forget"

    def __init__(self, problem: Problem, chunk: int = 64) -> None:
        super().__init__(problem)
        refuse_bad_chunk(chunk)
        self.chunk = chunk

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count two gated linear attentions, one that writes keys and one that reads values. Raises as the constructor does."""
        chunk, slots = cls(problem, **params).chunk, problem.D  # type: ignore[arg-type]
        of_keys = problem.model_copy(update={"M": slots})
        by_keys = cost_by_chunks(of_keys, chunk, 0, workload)
        by_values, scores = cost_by_chunks(problem, chunk, slots, workload), by_keys.executed_flops
        if workload is Workload.FORWARD_BACKWARD:
            # the backward of the walk repeats the forward and has two products for each
            scores = 4 * cost_by_chunks(of_keys, chunk, 0, Workload.FORWARD).executed_flops
        # decays are read once for both, and the scores of the slots stay within: the first moves no more than its state
        state = by_keys.traffic_bytes - io_bytes(of_keys, workload)
        return by_values.model_copy(
            update={
                "exact_flops": by_keys.exact_flops + by_values.exact_flops,
                "executed_flops": scores + by_values.executed_flops,
                "traffic_bytes": by_values.traffic_bytes + state,
            }
        )

    @classmethod
    def projections(cls, problem: Problem) -> tuple[Projection, ...]:
        """Name q, k, v, and the Z numbers from which the decay is made."""
        return *super().projections(problem), Projection("decay", problem.kv_heads, problem.D)

    @classmethod
    def admit(cls, problem: Problem, *raw: Tensor) -> tuple[Tensor, ...]:
        """Return q, k, v, and log α = log σ(-x) / 8, with the authors' temperature 8."""
        q, k, v, x = super().admit(problem, *raw)
        # -softplus(x) is log σ(-x), and unlike logsigmoid(-x) keeps the memory layout
        return q, k, v, F.softplus(x) / -8

    def forward(self, q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor) -> Tensor:  # type: ignore[override]
        """Attend: [B, H, N, D], [B, K, N, D], [B, K, N, M], [B, K, N, Z] -> [B, H, N, M], any N, differentiable once."""
        taken_in = -log_decay.expm1()
        scores = attend(_scores, (q, k, taken_in, log_decay), self.chunk)
        return linear_attention(scores.softmax(-1), taken_in, v, log_decay, chunk=self.chunk)[0]

    def reference(self, q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor) -> Tensor:  # type: ignore[override]
        """Compute both memories of every token as sums over all tokens."""
        k, v, log_decay = of_each_head(q, k, v, log_decay)
        c = log_decay.cumsum(2, dtype=torch.float64)
        later = torch.ones(c.shape[2], c.shape[2], dtype=torch.bool, device=c.device).triu(1).unsqueeze(-1)
        nats_BHNNZ = (c.unsqueeze(3) - c.unsqueeze(2)).masked_fill(later, -torch.inf)
        kept_BHNNZ = nats_BHNNZ.to(sums(v.dtype)).exp().to(v.dtype) * -log_decay.expm1().unsqueeze(2)
        scores_BHNZ = torch.einsum("bhij,bhijz->bhiz", q @ k.mT, kept_BHNNZ)
        return torch.einsum("bhiz,bhijz,bhjm->bhim", scores_BHNZ.softmax(-1), kept_BHNNZ, v)

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor) -> Tensor:  # type: ignore[override]  # noqa: ARG002 - all heads alike
        """Compute both memories of the tokens `at`."""
        c, found = log_decay.cumsum(0, dtype=torch.float64), []
        for i in at.tolist():
            kept = (c[i] - c[: i + 1]).to(v.dtype).exp() * -log_decay[: i + 1].expm1()
            found.append((kept.mT @ k[: i + 1] @ q[i]).softmax(-1) @ kept.mT @ v[: i + 1])
        return torch.stack(found)

    def exact(self, q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor) -> Tensor:  # type: ignore[override]  # noqa: ARG002
        """Softmax attention over all keys: the memory that slots bound."""
        return super().exact(q, k, v)

    @torch.no_grad()
    def prefill(  # type: ignore[override]
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        log_decay: Tensor,
        *,
        capacity: int,  # noqa: ARG002 - the slots are of one size
    ) -> tuple[Tensor, State]:
        """Attend to n ≥ 0 tokens, and return what the slots hold after them."""
        return self._attend((q, k, v, log_decay))

    @torch.no_grad()
    def extend(self, *inputs: Tensor, state: State) -> tuple[Tensor, State]:
        """Attend to more tokens by chunks, or to a few one after the other, without changing the given state."""
        return super().extend(*inputs, state=state) if inputs[0].shape[2] < FEW else self._attend(inputs, state)

    def _attend(self, inputs: tuple[Tensor, ...], before: State | None = None) -> tuple[Tensor, Slots]:
        q, k, v, log_decay = inputs
        taken_in, (keys, values) = -log_decay.expm1(), (None, None) if before is None else (before.keys, before.values.sums)
        scores, keys = attend_and_keep(_scores, (q, k, taken_in, log_decay), self.chunk, before=keys)
        o, values = linear_attention(scores.softmax(-1), taken_in, v, log_decay, chunk=self.chunk, state=values)
        return o, Slots(keys, RecurrentState(values))

    @torch.no_grad()
    def step(self, q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, *, state: State) -> tuple[Tensor, State]:  # type: ignore[override]
        """Attend one token: let the slots forget, write key and value into them in place, and read them."""
        kind = state.keys.dtype
        q, k, log_decay = (x.to(kind) for x in (q, k, log_decay))
        taken_in = -log_decay.expm1()
        keys = state.keys.mul_(log_decay.exp()).addcmul_(k.mT, taken_in)
        values = state.values.then(taken_in, v, log_decay)
        scores = of_one_token(q, keys.shape[1]) @ keys
        return values.read(one_token_of(scores.softmax(-1), q.shape[1])).to(v.dtype), Slots(keys, values)


def _scores(inputs: Inputs, state: Tensor) -> tuple[Tensor, Tensor]:
    """Score the slots by their keys: q [S, X, R L, D], k [S, X, L, D], what each slot takes in and its log decay [S, X, L, Z].

    `state` are the keys [X, D, Z] before the chunks; returns the scores [S, X, R L, Z] and the keys after them. A slot is a
    column of this state, so that its decay is a factor of sums, not of products: Σ_j (q_i · k_j) s_jz exp(c_iz - c_jz) with
    exp(c_i - c_j) = exp(c_i - r) exp(r - c_j), r halfway. Chunks that lose too much for that are cut into shorter ones.
    """
    S, L = len(inputs[1]), inputs[1].shape[2]
    length = L
    while length > 1 and _loses_too_much(inputs[3], length):
        length = next(x for x in range(length - 1, 0, -1) if L % x == 0)
    parts = (x.unflatten(2, (-1, L // length, length)).movedim(3, 1).contiguous() for x in inputs)
    q, k, taken_in, log_decay = (x.flatten(0, 1).flatten(2, 3) for x in parts)
    # what the first token loses is part of no pair, and may be so much that sums with it would keep few digits
    first = log_decay[:, :, :1]
    c = torch.cat((torch.zeros_like(first), log_decay[:, :, 1:]), 2).cumsum(2)
    end = c[:, :, -1:]
    halfway = end / 2
    written = (taken_in * left(end - c, c.dtype)).mT @ k
    met = states(left(end + first, c.dtype).mT, written, state.mT)
    within = each_head(lower_(q @ k.mT) @ (taken_in * (halfway - c).exp()), (c - halfway).exp())
    scores = within + each_head(q @ met[:-1].mT, left(c + first, c.dtype))
    return scores.unflatten(0, (S, -1)).unflatten(3, (-1, length)).movedim(1, 3).flatten(2, 4), met[-1].mT.clone()


def _loses_too_much(log_decay: Tensor, length: int) -> bool:
    """Say whether a slot loses more than FACTORED nats from the first to the last token of a chunk of this length."""
    chunks = log_decay.detach().unflatten(2, (-1, length))
    return bool(chunks[:, :, :, 1:].sum(3).amin() < -FACTORED)
