"""Checks of parameters, and what both attentions refuse."""

import sys

from attnbench.api import Cell


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


def why_not(cell: Cell) -> str | None:
    """Refuse non-causal cells and shared heads of k and v."""
    p = cell.problem
    if not p.causal:
        return "it is causal only, because it looks back; set causal: true"
    return None if p.kv_heads == p.H else "each head has parameters of its own: kv_heads must equal H"
