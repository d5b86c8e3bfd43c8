"""Our own Reformer attention: LSH attention whose memory beside inputs and output hardly depends on the rounds.

B batch, H heads, R rounds, N tokens, D query/key width, M value width.
"""

import math

import torch
from torch import Tensor

from attnbench.api import Causality, Cost, Problem, Scalar, Workload, takes

from ..family import SharedQK, refuse_two_tensors
from ..reference import Rules, lsh_attention
from ..shared_qk import shared_qk_attention
from ..temperature import scale_of
from .cost import cost_of_reformer
from .hiding import Hiding
from .options import CORRECTED, ReformerOptions
from .ring import Ring
from .rounds import attend_rounds
from .rows import Sorted, Terms
from .sorting import draw_buckets, sort_tokens


class ReformerLSH(SharedQK):
    """LSH attention of the Reformer at any length: hashing, sorting and attending among neighbours, some rows at a time.

    Kitaev et al. 2020, section 2. By default it is the function of reformer-pytorch, `lsh.reformer_pytorch`; the parameters are
    those of `ReformerOptions`. Queries and keys are one tensor. Later keys change the sorted order, so a causal call hides
    later values only, and there is no decoding. Buckets are drawn anew at each call, from torch's global generator. Raises
    ValueError on bad parameters, TypeError on unknown ones.
    """

    causality = Causality.VALUES_ONLY
    __signature__ = takes(ReformerOptions)
    grouped = False

    def __init__(self, problem: Problem, **params: Scalar) -> None:
        super().__init__(problem)
        self.options = options = ReformerOptions(**params)  # type: ignore[arg-type]
        self.scale = scale_of(options.temperature, problem)

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count hashing, which has no backward, and R rounds of windows. Raises TypeError or ValueError on bad parameters."""
        return cost_of_reformer(problem, ReformerOptions(**params), workload)  # type: ignore[arg-type]

    @torch.no_grad()
    def choose(self, *inputs: Tensor) -> Tensor:
        """Hash the queries: buckets int64 [B, H, R, N], with different numbers in each round."""
        buckets: Tensor = self._draw(inputs[0].flatten(0, 1)).long().unflatten(0, inputs[0].shape[:2])
        return buckets

    def forward(self, q: Tensor, k: Tensor, v: Tensor, choices: Tensor | None = None) -> Tensor:
        """Attend: [B, H, N, D], the same tensor, [B, H, N, M] -> [B, H, N, M], any N. Raises ValueError unless k is q."""
        refuse_two_tensors(q, k)
        qk, v_BNM = q.flatten(0, 1), v.flatten(0, 1)
        o = attend_rounds(qk, v_BNM, self._sort(qk, choices), self._terms(q.shape[2]))
        o_BHNM: Tensor = o.unflatten(0, q.shape[:2])
        return o_BHNM

    def reference(self, q: Tensor, k: Tensor, v: Tensor, choices: Tensor | None = None) -> Tensor:
        """Compute the definition with the same buckets, or with newly drawn ones. Raises ValueError unless k is q."""
        refuse_two_tensors(q, k)
        buckets = self.choose(q, k, v) if choices is None else choices
        o = lsh_attention(q.flatten(0, 1), v.flatten(0, 1), buckets.flatten(0, 1), self._rules())
        o_BHNM: Tensor = o.unflatten(0, q.shape[:2])
        return o_BHNM

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor, choices: Tensor | None = None) -> Tensor:  # noqa: ARG002 - heads are alike, and k is q
        """Compute the definition for the queries `at`, with buckets [R, N]."""
        assert choices is not None
        return lsh_attention(q[None], v[None], choices[None], self._rules(), at).squeeze(0)

    def exact(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Shared-QK attention over all keys, with the same temperature."""
        refuse_two_tensors(q, k)
        return shared_qk_attention(q, v, self.scale, causal=self.problem.causal)

    def _draw(self, qk_BND: Tensor) -> Tensor:
        return draw_buckets(qk_BND, self.options.rounds, self.options.factors(qk_BND.shape[1]))

    @torch.no_grad()
    def _sort(self, qk_BND: Tensor, choices: Tensor | None) -> Sorted:
        buckets = self._draw(qk_BND) if choices is None else choices.flatten(0, 1).int()
        # of its own buckets it knows how many there are: asking the tensor would break a graph that torch.compile makes
        count = self.options.rounds * math.prod(self.options.factors(qk_BND.shape[1])) if choices is None else None
        order = sort_tokens(buckets, count)
        return Sorted(order, None if self.options.across_buckets else buckets.gather(2, order.long()))

    def _terms(self, N: int) -> Terms:
        o = self.options
        ring = Ring(N, o.rounds, o.bucket_size, o.look_forward)
        return Terms(Hiding(ring, self.problem.causal, o.across_buckets, o.duplicates == CORRECTED), self.scale)

    def _rules(self) -> Rules:
        o = self.options
        return Rules(
            o.bucket_size,
            self.problem.causal,
            across=o.across_buckets,
            duplicates=o.duplicates != CORRECTED,
            after=o.look_forward,
            scale=self.scale,
            exact_counts=True,
        )
