"""Softmax attention that decodes without a cache: the whole prefix anew for each token.

b batch, H heads, K heads of k and v, n or N tokens, D query/key width, M value width.
"""

from dataclasses import dataclass
from typing import Self

from torch import Tensor

from attnbench.api import Cost, Problem, Scalar, State, Workload, io_bytes, nominal_flops

from ...partial.cache import written
from ..library.sdpa import SdpaSoftmax
from ..work import cache_bytes, refuse_parameters


@dataclass(frozen=True)
class Tokens:
    """The first `length` tokens: q [b, H, capacity, D], k [b, K, capacity, D], v [b, K, capacity, M], tokens outermost.

    A model without a cache would hold token numbers and compute q, k and v from them at each step; holding q, k and v instead
    means that attention alone is timed.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    length: int

    @classmethod
    def of(cls, q: Tensor, k: Tensor, v: Tensor, capacity: int) -> Self:
        """Start with tokens of q, k and v. Raises ValueError where they do not fit."""
        q_, k_, v_ = (x.new_empty(len(x), capacity, x.shape[1], x.shape[3]).transpose(1, 2) for x in (q, k, v))
        return cls(written(q_, q, 0), written(k_, k, 0), written(v_, v, 0), q.shape[2])

    def then(self, q: Tensor, k: Tensor, v: Tensor) -> Self:
        """Append n tokens in the same memory. Raises ValueError where full."""
        at = self.length
        return type(self)(written(self.q, q, at), written(self.k, k, at), written(self.v, v, at), at + q.shape[2])

    @property
    def qkv(self) -> tuple[Tensor, Tensor, Tensor]:
        """Select the tokens so far: [b, H, length, D], [b, K, length, D], [b, K, length, M], views."""
        return self.q[:, :, : self.length], self.k[:, :, : self.length], self.v[:, :, : self.length]


class RecomputeSoftmax(SdpaSoftmax):
    """`F.scaled_dot_product_attention` over all tokens so far at each step, of which the last row is used: O(N²) a step.

    The baseline without a cache with which Katharopoulos et al. 2020, section 4.2, generate. All queries attend again, since in
    a model of several layers the upper ones need them. Forward and backward are those of softmax.sdpa.
    """

    paper = "arXiv:2006.16236"
    recomputes = True

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Compute the cost; in decoding, i (i + 1) / 2 pairs for the i-th token. Raises TypeError on any parameter."""
        if not workload.decodes:
            return super().cost(problem, params, workload)
        refuse_parameters(params)
        work = _flops(problem, workload)
        return Cost(
            nominal_flops=nominal_flops(problem, workload),
            exact_flops=work,
            executed_flops=work,
            traffic_bytes=io_bytes(problem, workload) + _bytes_moved(problem, workload),
        )

    def prefill(self, q: Tensor, k: Tensor, v: Tensor, *, capacity: int) -> tuple[Tensor, Tokens]:
        """Attend to the prompt causally and keep all of it. Raises ValueError where it does not fit."""
        return self._prompt(q, k, v), self.state_after(q, k, v, capacity=capacity)

    def state_after(self, *inputs: Tensor, capacity: int) -> Tokens:
        """Keep all of a prompt, without attending to it. Raises ValueError where it does not fit."""
        q, k, v = inputs
        return Tokens.of(q, k, v, capacity)

    def step(self, q: Tensor, k: Tensor, v: Tensor, *, state: Tokens) -> tuple[Tensor, Tokens]:
        """Append one token, and attend from all tokens again. Raises ValueError beyond the capacity."""
        return self.extend(q, k, v, state=state)

    def extend(self, *inputs: Tensor, state: State) -> tuple[Tensor, State]:
        """Append n tokens, and attend from all tokens again. Raises ValueError beyond the capacity."""
        tokens: Tokens = state.then(*inputs)
        # a copy, so that the other rows can be freed
        return self.attend(*tokens.qkv, causal=True)[:, :, -inputs[0].shape[2] :].clone(), tokens


def _flops(p: Problem, workload: Workload) -> float:
    """Count two products over all pairs j ≤ i, for N tokens or for 1, 2, … N: Σ n (n + 1) / 2 = N (N + 1) (N + 2) / 6."""
    pairs = p.N * (p.N + 1) / 2 if workload is Workload.DECODE else p.N * (p.N + 1) * (p.N + 2) / 6
    return 2.0 * p.B * p.H * pairs * (p.D + p.M)


def _bytes_moved(p: Problem, workload: Workload) -> float:
    """Count the bytes of kept tokens that are read, of the one written, and of output rows that are not used."""
    before = p.N - 1 if workload is Workload.DECODE else p.N * (p.N - 1) // 2
    steps = 1 if workload is Workload.DECODE else p.N
    queries = (before + steps) * p.D
    return cache_bytes(p, before + steps) + p.B * p.H * (queries + before * p.M) * p.dtype.bytes
