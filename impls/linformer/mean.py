"""Keys and values as the means of blocks of tokens: a projection without parameters.

B batch, K heads of k and v, N tokens, S blocks, L tokens of a block, D query/key width, M value width.
"""

from torch import Tensor

from attnbench.api import Cost, Problem, Scalar, Workload

from .blocks import mean
from .cost import cost_of
from .family import EVERY, ProjectedKeys
from .options import Options, options_of_k
from .reference import mean_matrix


class MeanLinformer(ProjectedKeys):
    """E = F = the means of blocks of L = N / k tokens, rounded up: at most k of them, the last over the tokens it has; O(N k).

    Wang et al. 2020, section 4, "general projections": mean pooling with kernel and stride N / k. A hidden key counts as a zero
    in the mean of its block. Raises ValueError on a bad k.
    """

    def __init__(self, problem: Problem, k: int = 256) -> None:
        super().__init__(problem)
        self.L = Options(k).block(problem.N)

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count FLOPs, none of them for the means, and bytes. Raises TypeError or ValueError on bad parameters."""
        L = options_of_k(**params).block(problem.N)  # type: ignore[arg-type]
        return cost_of(problem, workload, -(-problem.N // L), 0)

    def project(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Average keys and values, reading each once."""
        return mean(k, self.L), mean(v, self.L)

    def project_densely(self, k: Tensor, v: Tensor, heads: slice = EVERY) -> tuple[Tensor, Tensor]:  # noqa: ARG002 - all heads alike
        """Average by a matrix [S, N] of 1 / L."""
        means = mean_matrix(k.shape[2], self.L, k)
        return means @ k, means @ v
