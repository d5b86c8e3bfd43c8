"""Checks of parameters."""

import sys


def whole(value: object, name: str, least: int = 1) -> int:
    """Return the value. Raises ValueError unless it is a whole number of `least` or more."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name}={value!r}: must be a whole number, {least} or more")
    return value


def positive(value: object, name: str) -> float:
    """Return the value as a float. Raises ValueError unless it is a finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= sys.float_info.max:
        raise ValueError(f"{name}={value!r}: must be a number above 0")
    return float(value)
