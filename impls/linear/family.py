"""What all linear attentions share: the feature map, the definition, and how they decode.

B batch, H heads, K heads of k and v, N tokens, D query/key width, C width of φ, M value width.
"""

from torch import Tensor

from attnbench.api import Attention, Problem

from .feature_map import feature_map
from .parameters import refuse_bad_eps
from .reference import linear_attention


class LinearFamily(Attention):
    """Linear attention; a subclass says how it is computed. Raises ValueError on an unknown feature map or where eps < 0."""

    paper = "arXiv:2006.16236"
    decodes = True
    masks = True

    def __init__(self, problem: Problem, feature_map: str = "elu_plus_one", eps: float = 1e-6) -> None:
        super().__init__(problem)
        refuse_bad_eps(eps)
        self.causal, self.eps, self.phi = problem.causal, eps, _feature_map(feature_map)

    def reference(self, q: Tensor, k: Tensor, v: Tensor, *, key_mask: Tensor | None = None) -> Tensor:
        """The quadratic form of the same definition, with the same eps and feature map."""
        return linear_attention(q, k, v, causal=self.causal, eps=self.eps, phi=self.phi, key_mask=key_mask)


_feature_map = feature_map
