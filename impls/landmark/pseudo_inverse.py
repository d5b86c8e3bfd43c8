"""The iterated pseudo-inverse of a matrix whose rows add up to one.

X = B H matrices, S landmarks.
"""

import torch
from torch import Tensor


def pseudo_inverse(a: Tensor, iterations: int) -> Tensor:
    """Iterate Z_{j+1} = ¼ Z_j (13 I - A Z_j (15 I - A Z_j (7 I - A Z_j))): [X, S, S] -> [X, S, S].

    Xiong et al. 2021, after Razavi et al. 2014; Z_0 = Aᵀ / ‖A‖_1, since ‖A‖_∞ of a softmax is one. Each iteration triples the
    number of correct digits once ‖A A⁺ - A Z‖ < 1.
    """
    z = a.mT / a.sum(1).amax(-1)[:, None, None]
    eye = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    for _ in range(iterations):
        az = a @ z
        inner = torch.baddbmm(eye, az, 7 * eye - az, beta=15, alpha=-1)
        z = torch.baddbmm(eye, z, torch.baddbmm(eye, az, inner, beta=13, alpha=-1), beta=0, alpha=0.25)
    return z
