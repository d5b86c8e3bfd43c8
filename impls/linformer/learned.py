"""Linformer: keys and values projected by learned matrices.

B batch, H heads, K heads of k and v, N tokens, S projected keys, D query/key width, M value width.
"""

import torch
from torch import Tensor, nn

from attnbench.api import Cost, Problem, Scalar, Workload

from .cost import cost_of
from .family import EVERY, ProjectedKeys
from .options import Options
from .product import project


class Linformer(ProjectedKeys):
    """k̄ = E k, v̄ = F v with E and F in R^{S x N}, S = min(k, N): attention in O(N S).

    Wang et al. 2020, eq. 7. `sharing` as in its section 4: matrices for each head (`none`), for all heads (`headwise`), E = F
    (`key_value`), or one for all layers (`layerwise`), which for the one layer measured here is the same as `key_value`. With
    fewer heads of keys than of queries, `none` has a matrix for each head of keys. Initialised as uniform(-1/√S, 1/√S). Built
    for sequences of N tokens. Raises ValueError on bad parameters.
    """

    F: nn.Parameter | None

    def __init__(self, problem: Problem, k: int = 256, sharing: str = "headwise") -> None:
        super().__init__(problem)
        options = Options(k, sharing)
        self.E = _drawn(problem, options)
        self.register_parameter("F", None if options.one_matrix else _drawn(problem, options))

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count FLOPs and bytes. Raises TypeError or ValueError on bad parameters."""
        options = Options(**params)  # type: ignore[arg-type]
        matrices, S, N = options.shape(problem)
        elements = matrices * S * N * (1 if options.one_matrix else 2)
        return cost_of(problem, workload, S, elements, by_matrix=True)

    def project(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Project, with one product for all heads that share a matrix."""
        return project(self.E, k), project(self._values_by, v)

    def project_densely(self, k: Tensor, v: Tensor, heads: slice = EVERY) -> tuple[Tensor, Tensor]:
        """Compute E k and F v."""
        own = heads if len(self.E) > 1 else EVERY
        return self.E[own] @ k, self._values_by[own] @ v

    @property
    def _values_by(self) -> Tensor:
        return self.E if self.F is None else self.F


def _drawn(problem: Problem, options: Options) -> nn.Parameter:
    """Draw uniformly as the package linformer does, in float32 first, so that all dtypes round the same numbers."""
    shape = options.shape(problem)
    bound = shape[1] ** -0.5
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound).to(getattr(torch, problem.dtype)))
