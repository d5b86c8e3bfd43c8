"""Keys and values of blocks of tokens, each channel weighted over its block by a learned kernel.

B batch, K heads of k and v, N tokens, S blocks, L tokens of a block, D query/key width, M value width.
"""

import torch
from torch import Tensor, nn

from attnbench.api import Cost, Problem, Scalar, Workload

from .blocks import convolve
from .cost import cost_of
from .family import EVERY, ProjectedKeys
from .options import Options, options_of_k
from .reference import convolve as convolve_densely


class ConvolutionLinformer(ProjectedKeys):
    """A depthwise convolution over tokens whose kernel and stride are both L = N / k, rounded up: at most k keys, O(N k).

    Wang et al. 2020, section 4, "general projections". Each channel of each head has its own L weights, for keys [L, K, D] and
    for values [L, K, M], without a bias; channels do not mix. Where L does not divide N the last block is padded with zeros.
    Initialised as uniform(-1/√L, 1/√L), like torch's depthwise convolution. Raises ValueError on a bad k.
    """

    # each channel has weights of its own
    weighs = False

    def __init__(self, problem: Problem, k: int = 256) -> None:
        super().__init__(problem)
        L = Options(k).block(problem.N)
        self.kernel_of_keys = _drawn(problem, L, problem.D)
        self.kernel_of_values = _drawn(problem, L, problem.M)

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count FLOPs, none of them for the convolution, and bytes. Raises TypeError or ValueError on bad parameters."""
        p = problem
        L = options_of_k(**params).block(p.N)  # type: ignore[arg-type]
        return cost_of(p, workload, -(-p.N // L), L * p.kv_heads * (p.D + p.M))

    def project(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Convolve keys and values, reading each once."""
        return convolve(k, self.kernel_of_keys), convolve(v, self.kernel_of_values)

    def project_densely(self, k: Tensor, v: Tensor, heads: slice = EVERY) -> tuple[Tensor, Tensor]:
        """Compute the sums of blocks times weights."""
        return convolve_densely(k, self.kernel_of_keys[:, heads]), convolve_densely(v, self.kernel_of_values[:, heads])


def _drawn(problem: Problem, L: int, width: int) -> nn.Parameter:
    weights = torch.empty(L, problem.kv_heads, width).uniform_(-(L**-0.5), L**-0.5)
    return nn.Parameter(weights.to(getattr(torch, problem.dtype)))
