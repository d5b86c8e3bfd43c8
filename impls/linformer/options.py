"""The parameters of attention over projected keys, and sizes that follow from them and the length."""

from dataclasses import dataclass

from attnbench.api import Problem

SHARING = ("none", "headwise", "key_value", "layerwise")
"""Values of `sharing`: matrices for each head, for all heads, also for keys and values, also for all layers.

Wang et al. 2020, section 4.
"""


@dataclass(frozen=True)
class Options:
    """The number of projected keys, and which heads share a projection. Raises ValueError on bad values."""

    k: int = 256
    sharing: str = "headwise"

    def __post_init__(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, int) or self.k < 1:
            raise ValueError(f"k={self.k!r}: it counts projected keys and must be a whole number, 1 or more")
        if self.sharing not in SHARING:
            raise ValueError(f"sharing={self.sharing!r}: must be one of {', '.join(SHARING)}")

    @property
    def one_matrix(self) -> bool:
        """Say whether E = F; for the one layer that is measured, layerwise is the same as key_value."""
        return self.sharing in {"key_value", "layerwise"}

    def slots(self, N: int) -> int:
        """Count the projected keys: k, but at most one for each token."""
        return min(self.k, N)

    def block(self, N: int) -> int:
        """Count the tokens of a block where blocks are projected: the fewest that give at most k blocks."""
        return -(-N // self.k)

    def shape(self, p: Problem) -> tuple[int, int, int]:
        """Compute the shape of E and of F: one [S, N] for all heads, or one for each head of keys."""
        return p.kv_heads if self.sharing == "none" else 1, self.slots(p.N), p.N


def options_of_k(k: int = 256) -> Options:
    """Parse the one parameter of methods without `sharing`. Raises TypeError on other parameters, ValueError on a bad value."""
    return Options(k)
