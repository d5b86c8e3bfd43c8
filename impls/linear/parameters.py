"""What the parameters of linear attention may be."""

import math


def refuse_bad_eps(eps: float) -> None:
    """Raise ValueError unless eps is finite and at least 0."""
    if isinstance(eps, bool | str) or not 0 <= eps < math.inf:
        raise ValueError(f"eps={eps!r}: it is added to the denominator and must be a finite number, 0 or more")


def refuse_bad_chunk(chunk: int) -> None:
    """Raise ValueError unless chunk is a whole number of tokens, at least 1."""
    if isinstance(chunk, bool) or not isinstance(chunk, int) or chunk < 1:
        raise ValueError(f"chunk={chunk!r}: it counts tokens and must be a whole number, 1 or more")


def refuse_bad_features(features: int) -> None:
    """Raise ValueError unless features is a whole number, at least 1."""
    if isinstance(features, bool) or not isinstance(features, int) or features < 1:
        raise ValueError(f"features={features!r}: it counts random features and must be a whole number, 1 or more")
