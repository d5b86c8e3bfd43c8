"""Checks of the parameters of linear attention."""

import math

from .maps.feature_map import elementwise


def refuse_bad_eps(eps: float) -> None:
    """Raise ValueError unless eps is finite and at least 0."""
    if isinstance(eps, bool | str) or not 0 <= eps < math.inf:
        raise ValueError(f"eps={eps!r}: it is added to the denominator and must be a finite number, 0 or more")


def refuse_bad_kernel_parameters(feature_map: str = "elu_plus_one", eps: float = 1e-6) -> None:
    """Raise what the constructors of linear.cuda and linear.triton raise, without their packages: TypeError or ValueError."""
    elementwise(feature_map)
    refuse_bad_eps(eps)


def refuse_bad_features(features: int) -> None:
    """Raise ValueError unless features is a whole number, at least 1."""
    if isinstance(features, bool) or not isinstance(features, int) or features < 1:
        raise ValueError(f"features={features!r}: it counts random features and must be a whole number, 1 or more")
