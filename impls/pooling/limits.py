"""What pooled attentions refuse."""

from attnbench.api import Cell


def refuse_bad_factor(factor: object) -> None:
    """Raise ValueError unless it is a whole number, 1 or more."""
    if isinstance(factor, bool) or not isinstance(factor, int) or factor < 1:
        raise ValueError(f"factor={factor!r}: must be a whole number, 1 or more")


def why_not_causal(cell: Cell) -> str | None:
    """A mean shows what is later."""
    if not cell.problem.causal:
        return None
    return "a mean over a block shows each of its tokens the later ones, so there is no causal form; set causal: false"
