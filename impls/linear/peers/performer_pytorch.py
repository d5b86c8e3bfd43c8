"""FAVOR+ of the package performer-pytorch.

B batch, H heads, N tokens, D query/key width, C random features, M value width.
"""

import sys
import warnings
from typing import Any

import torch
from torch import Tensor

from attnbench.api import Attention, Causality, Cost, DType, Problem, Scalar, Tier, Workload, io_bytes, nominal_flops

from ..parameters import refuse_bad_features

EPS = 1e-4
"""What the package adds to each feature; it has no parameter for it."""


class PerformerPytorchFavor(Attention):
    """`FastAttention` of performer-pytorch: softmax attention estimated by positive orthogonal random features, in O(N C M).

    Choromanski et al. 2020, lemma 1 and section 2.4. The projection is drawn once, at construction, from torch's global
    generator, as the package does. Its features differ from the paper's: queries are stabilised by their own maximum, keys by
    one over all positions, and 1e-4 is added to each feature. Raises ValueError where features < 1.
    """

    paper = "arXiv:2009.14794"
    tier = Tier.LIBRARY
    causality = Causality.NONE
    # it imports distutils, which left Python in 3.12 and now comes with setuptools
    requires = ("performer-pytorch>=1.1.4",) if sys.version_info < (3, 12) else ("performer-pytorch>=1.1.4", "setuptools")
    because = (
        "its causal keys are stabilised by a maximum over all positions, so that earlier outputs depend on later keys; "
        "linear.chunked with feature_map: favor is causal"
    )
    grouped = False
    dtypes = (DType.FLOAT64, DType.FLOAT32, DType.BFLOAT16)  # the inverse of a sum of features passes 65504

    def __init__(self, problem: Problem, features: int = 256) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # distutils warns at every import
            from performer_pytorch import FastAttention

        super().__init__(problem)
        refuse_bad_features(features)
        self.attention: Any = FastAttention(dim_heads=problem.D, nb_features=features, causal=False)

    @classmethod
    def cost(cls, problem: Problem, params: dict[str, Scalar], workload: Workload) -> Cost:
        """Count FLOPs and bytes; the projection has no gradient. Raises TypeError or ValueError on bad parameters."""
        p, C = problem, _features(**params)  # type: ignore[arg-type]
        trains, rows = workload is Workload.FORWARD_BACKWARD, p.B * p.H * p.N
        passes = 3.0 if trains else 1.0
        exact = rows * C * ((8.0 if trains else 4.0) * p.D + passes * 4.0 * p.M)
        return Cost(
            nominal_flops=nominal_flops(p, workload),
            exact_flops=exact,
            executed_flops=exact + rows * passes * 2.0 * C,
            traffic_bytes=io_bytes(p, workload),
        )

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend: [B, H, N, D], [B, H, N, D], [B, H, N, M] -> [B, H, N, M]."""
        o: Tensor = self.attention(q, k, v)
        return o

    def reference(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Compute the package's features with this object's projection, then the dense N × N form."""
        return favor_attention(q, k, v, self.attention.projection_matrix)

    def rows(self, head: int, at: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:  # noqa: ARG002 - all heads alike
        """Compute the definition for the queries `at`: the keys' stabiliser covers all positions, a query's only itself."""
        return favor_attention(q[at], k, v, self.attention.projection_matrix)


def favor_attention(q: Tensor, k: Tensor, v: Tensor, projection_CD: Tensor) -> Tensor:
    """Compute o_i = Σ_j φ_q(q_i)·φ_k(k_j) v_j / Σ_j φ_q(q_i)·φ_k(k_j), φ = (exp(W x̂ - ‖x̂‖²/2 - s) + 1e-4) / √C.

    x̂ = x / D^¼. Choromanski et al. 2020, lemma 1, with the stabiliser s of the package: max_C W q̂_i for a query, and the
    maximum of W k̂ over features and positions for the keys of a head; constants to the gradient.
    """
    queries_BHNC, keys_BHNC = _exponents(q, projection_CD), _exponents(k, projection_CD)
    s_BHN1 = _projected(q, projection_CD).amax(-1, keepdim=True).detach()
    s_BH11 = _projected(k, projection_CD).amax((-1, -2), keepdim=True).detach()
    ratio = projection_CD.shape[0] ** -0.5
    phi_q = ratio * (torch.exp(queries_BHNC - s_BHN1) + EPS)
    phi_k = ratio * (torch.exp(keys_BHNC - s_BH11) + EPS)
    weights_BHNN = phi_q @ phi_k.mT
    o: Tensor = weights_BHNN @ v / weights_BHNN.sum(-1, keepdim=True)
    return o


def _projected(x: Tensor, projection_CD: Tensor) -> Tensor:
    """Compute W x̂: [..., D] -> [..., C]."""
    projected: Tensor = x * x.shape[-1] ** -0.25 @ projection_CD.to(x.dtype).mT
    return projected


def _exponents(x: Tensor, projection_CD: Tensor) -> Tensor:
    """Compute W x̂ - ‖x̂‖²/2: [..., D] -> [..., C]."""
    exponents: Tensor = _projected(x, projection_CD) - x.square().sum(-1, keepdim=True) / (2 * x.shape[-1] ** 0.5)
    return exponents


def _features(features: int = 256) -> int:
    """Check the constructor's parameter without the package. Raises TypeError on others, ValueError on a bad value."""
    refuse_bad_features(features)
    return features
