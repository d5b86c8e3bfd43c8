"""Base class of all linear attentions: the feature map, the definition, and decoding.

B batch, H heads, K heads of k and v, N tokens, D query/key width, C width of φ, M value width.
"""

from torch import Tensor

from attnbench.api import Attention, Problem

from .decoding import LinearState, extend, state_of, step
from .eager.keys import Terms
from .maps.by_name import feature_map as map_of_name
from .parameters import refuse_bad_eps
from .reference import linear_attention, linear_rows


class LinearFamily(Attention):
    """Linear attention, for which a subclass says how it is computed; decodes with sums whose size does not depend on N.

    `eps` is added to denominators; its default depends on the feature map: 1e-6, and 1e-30 for favor. Raises ValueError on an
    unknown feature map, on `features` for a map that draws none, or where eps < 0.
    """

    paper = "arXiv:2006.16236"
    decodes = True
    masks = True
    packs = True
    because = "linear.full does the form without a mask"

    def __init__(
        self, problem: Problem, feature_map: str = "elu_plus_one", eps: float | None = None, features: int | None = None
    ) -> None:
        super().__init__(problem)
        self.phi = map_of_name(feature_map, problem.D, features)
        self.causal, self.eps = problem.causal, self.phi.eps if eps is None else eps
        refuse_bad_eps(self.eps)

    def terms(self, key_mask: Tensor | None = None, heads: int = 1) -> Terms:
        """Return what a call needs beside q, k and v; repeats the mask [B, N] for each head: [B heads, N, 1]."""
        mask = None if key_mask is None else key_mask.repeat_interleave(heads, dim=0).unsqueeze(-1)
        return Terms(self.phi, self.eps, mask)

    def reference(self, q: Tensor, k: Tensor, v: Tensor, *, key_mask: Tensor | None = None) -> Tensor:
        """Compute the quadratic form of the same definition, with the same eps and feature map."""
        return linear_attention(q, k, v, causal=self.causal, eps=self.eps, phi=self.phi, key_mask=key_mask)

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor, key_mask: Tensor | None = None) -> Tensor:  # noqa: ARG002 - all heads alike
        """Compute the same for the queries `at`, by their similarities to all keys."""
        return linear_rows(at, q, k, v, causal=self.causal, eps=self.eps, phi=self.phi, key_mask=key_mask)

    def prefill(self, q: Tensor, k: Tensor, v: Tensor, *, capacity: int) -> tuple[Tensor, LinearState]:
        """Attend by the method's own forward, and sum up the state in one pass over k and v; any n ≥ 0."""
        o = self(q, k, v) if q.shape[2] else v.new_empty(*q.shape[:3], v.shape[-1])
        return o, self.state_after(q, k, v, capacity=capacity)

    def state_after(self, *inputs: Tensor, capacity: int) -> LinearState:  # noqa: ARG002 - the state is of one size
        """Sum up the state in one pass over k and v."""
        _, k, v = inputs
        return state_of(self.terms(), k, v)

    def step(self, q: Tensor, k: Tensor, v: Tensor, *, state: LinearState) -> tuple[Tensor, LinearState]:
        """Attend one token: add its key and value to the state, in place, and read it with its query."""
        return step(self.phi, self.eps, (q, k, v), state)

    def extend(self, *inputs: Tensor, state: LinearState) -> tuple[Tensor, LinearState]:
        """Attend many more tokens by chunks; the given state stays as it is."""
        q, k, v = inputs
        return extend(self.terms(), (q, k, v), state)
