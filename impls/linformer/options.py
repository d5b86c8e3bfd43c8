"""The parameters of attention over projected keys, and what follows from them for a length."""

from dataclasses import dataclass

from attnbench.api import Problem

SHARING = ("none", "headwise", "key_value", "layerwise")
"""Wang et al. 2020, section 4: a matrix for each head, for all heads, for keys and values too, for all layers too."""


@dataclass(frozen=True)
class Options:
    """Projected keys, and who shares a projection. Raises ValueError on what cannot be."""

    k: int = 256
    sharing: str = "headwise"

    def __post_init__(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, int) or self.k < 1:
            raise ValueError(f"k={self.k!r}: it counts projected keys and must be a whole number, 1 or more")
        if self.sharing not in SHARING:
            raise ValueError(f"sharing={self.sharing!r}: must be one of {', '.join(SHARING)}")

    @property
    def one_matrix(self) -> bool:
        """Whether E = F; within the one layer that is measured, layerwise is key_value."""
        return self.sharing in {"key_value", "layerwise"}

    def slots(self, N: int) -> int:
        """k, and never more than there are tokens."""
        return min(self.k, N)

    def block(self, N: int) -> int:
        """Tokens of a block where blocks are projected: the fewest that leave at most k blocks."""
        return -(-N // self.k)

    def shape(self, p: Problem) -> tuple[int, int, int]:
        """Of E and of F: one [S, N] for all heads, or one for each head of keys."""
        return p.kv_heads if self.sharing == "none" else 1, self.slots(p.N), p.N
