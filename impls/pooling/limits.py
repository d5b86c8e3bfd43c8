"""The checks of `factor` and `keep`, and why pooled attentions refuse causal cells."""

from attnbench.api import Cell


def refuse_bad_factor(factor: object) -> None:
    """Raise ValueError unless factor is a whole number of 1 or more."""
    if isinstance(factor, bool) or not isinstance(factor, int) or factor < 1:
        raise ValueError(f"factor={factor!r}: must be a whole number, 1 or more")


def refuse_bad_share(keep: object) -> None:
    """Raise ValueError unless keep is a share above 0, at most 1."""
    if isinstance(keep, bool) or not isinstance(keep, int | float) or not 0 < keep <= 1:
        raise ValueError(f"keep={keep!r}: must be a number above 0, at most 1")


def why_not_causal(cell: Cell) -> str | None:
    """Refuse causal cells, because a mean contains later tokens."""
    if not cell.problem.causal:
        return None
    return "a mean over a block shows each of its tokens the later ones, so there is no causal form; set causal: false"
