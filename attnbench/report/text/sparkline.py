"""Sparklines: a curve in as many letters as it has points."""

from collections.abc import Sequence
from dataclasses import dataclass

BLOCKS, PLAIN = "▁▂▃▄▅▆▇█", "._-=#"
"""Signs by rising height; the second for terminals that know no others."""


@dataclass(frozen=True)
class Scale:
    """Heights from `low` to `high` in equal steps, one a sign; several sparklines on one scale can be compared."""

    low: float
    high: float
    signs: str = BLOCKS

    def sign(self, height: float) -> str:
        """Heights beyond the ends get the sign of the end; where there is no range, all get the lowest."""
        share = (height - self.low) / (self.high - self.low) if self.low < self.high else 0.0
        return self.signs[min(int(max(0.0, min(share, 1.0)) * len(self.signs)), len(self.signs) - 1)]


def sparkline(points: Sequence[float | str], scale: Scale) -> str:
    """A letter a point; what is no number stands for itself."""
    return "".join(point if isinstance(point, str) else scale.sign(point) for point in points)
